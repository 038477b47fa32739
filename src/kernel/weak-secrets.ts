/*
 * Secrets that were made up and not drawn. A drawn one meets none of these rules in the life of the universe, and they are
 * no measure of a good one.
 */

/** Of 32 drawn bytes about 30 differ. */
const fewestBytes = 16
const fewestLetters = 8

const isSequence = (codes: readonly number[]): boolean => {
  const steps = new Map<number, number>()
  for (let at = 1; at < codes.length; at += 1) {
    const step = (codes[at] ?? 0) - (codes[at - 1] ?? 0)
    steps.set(step, (steps.get(step) ?? 0) + 1)
  }
  return Math.max(...steps.values()) * 2 > codes.length
}

/** Why a key of 32 bytes is weak, e.g. `repeats itself`; null when nothing shows. */
export const weakKey = (key: Buffer): string | null => {
  const bytes = [...key]
  if (new Set(bytes).size < fewestBytes) return 'repeats itself'
  if (isSequence(bytes)) return 'counts up or down'
  if (bytes.every((byte) => byte >= 0x20 && byte < 0x7f)) return 'is a typed text in base64'
  return null
}

const usualWords = /password|passwort|change.?me|secret|token|metrics|farebox|example|admin|qwerty|test/gi

/** The same of a text. */
export const weakText = (text: string): string | null => {
  const letters = [...text.replace(usualWords, '')]
  if (new Set(letters).size < fewestLetters) return 'repeats itself or is made of usual words'
  if (isSequence(letters.map((letter) => letter.codePointAt(0) ?? 0))) return 'counts up or down'
  return null
}

import fc, { runs } from '../support/fast-check.ts'

const soak = process.env.FAREBOX_SOAK === '1'
const [mostPumps, mostHeads] = soak ? [300, 8] : [100, 4]

/** Characters that match parts of an expression, and some that match none. */
const usual = ['0', 'a', 'A', ' ', '\n', '\u0000', '!']

/** Runs of plain characters in the expression. */
const wordsOf = (regex: RegExp): string[] =>
  regex.source
    .replace(
      /\\[dDwWsSbBpP](?:\{\w+\})?|\\u[0-9a-f]{4}|\\x[0-9a-f]{2}|\{\d+,?\d*\}|\(\?[:=!]|\(\?<[=!]/g,
      '\n',
    )
    .replace(/\\(.)/g, '$1')
    .split(/[\n()[\]{}|?*+^$]/)
    .filter((word) => word !== '')

/** Texts that match; none for an expression that fast-check cannot read. */
const matchesOf = (regex: RegExp): readonly string[] => {
  try {
    return fc.sample(fc.stringMatching(new RegExp(regex.source, regex.flags.replace(/[gyi]/g, ''))), {
      numRuns: runs(4),
      seed: 28,
    })
  } catch {
    return []
  }
}

const cut = (texts: Iterable<string>, most: number): string[] => [...new Set(texts)].slice(0, most)

/** Texts of about a given length that make a backtracking search begin often and fail late. */
function* hostileTexts(regex: RegExp): Generator<(length: number) => string> {
  const words = wordsOf(regex)
  const matches = matchesOf(regex).map((text) => text.slice(0, 40))
  const chars = cut([...words.join(''), ...usual, ...matches.join('').slice(0, 20)], 24)
  const pumps = cut(
    [
      ...chars,
      ...words,
      ...matches,
      ...matches.flatMap((text) => [...text].map((_, at) => text.slice(at, at + 3))),
      ...chars.flatMap((one) => chars.map((other) => one + other)),
    ].filter((pump) => pump !== ''),
    mostPumps,
  )
  const heads = cut(
    ['', ...words, ...matches.flatMap((text) => [1, 2, 4, 8].map((end) => text.slice(0, end)))],
    mostHeads,
  )
  for (const pump of pumps)
    for (const head of heads)
      for (const tail of ['', '\u0000', `!${chars[0]}`])
        yield (length) => head + pump.repeat(length / pump.length) + tail
}

/** The fastest of three runs in milliseconds: other work of the machine slows some of them. */
const quickest = (run: () => void): number =>
  Math.min(
    ...[1, 2, 3].map(() => {
      const start = performance.now()
      run()
      return performance.now() - start
    }),
  )

/** Replacing all matches starts with the search of a single match and continues after it. */
const useOf = (regex: RegExp): ((text: string) => void) => {
  const everywhere = new RegExp(regex.source, `${regex.flags.replace(/[gy]/g, '')}g`)
  return (text) => void text.replace(everywhere, '')
}

/** Starts with short texts: an exponential search must not get a long one. */
const lengths = [16, 20, 24, 28, 2_000]
/** A linear search takes some tenths of it at most, a quadratic one far more, even on a fast machine. */
const suspectMs = 0.5

/** Whether the search of this text takes long, and either is short or takes far longer than that of an eighth of it. */
const isTooSlow = (
  use: (text: string) => void,
  textOf: (length: number) => string,
  length: number,
): boolean => {
  const text = textOf(length)
  const start = performance.now()
  use(text)
  if (performance.now() - start < suspectMs) return false
  const ms = quickest(() => use(text))
  if (ms < suspectMs) return false
  return length < 200 || ms > 24 * quickest(() => use(textOf(length / 8)))
}

/**
 * Whether the form of an expression allows linear time only: nothing repeats without bound, or it begins at the start
 * of the text and repeats one character once.
 */
const isLinear = ({ source, multiline }: RegExp): boolean => {
  const atoms = source.replace(/\\(?:[pPu]\{[^{}]*\}|u[0-9a-f]{4}|x[0-9a-f]{2}|.)|\[(?:\\.|[^\]\\])*\]/g, 'x')
  const repeats = atoms.match(/[*+]|\{\d+,\}|\{(?:\d+,)?\d{3,}\}/g)?.length ?? 0
  // A repeated group, and a text that was matched before.
  if (/\)[*+{]/.test(atoms) || /\\[1-9k]/.test(source)) return false
  return repeats === 0 || (repeats === 1 && /^\^[^|]*$/.test(atoms) && !multiline)
}

/**
 * A hostile text whose search takes more than linear time, or null if none was found. Slow expressions are
 * suspects; a measurement decides: for eight times the text a quadratic search takes 64 times as long or
 * longer, a linear one eight times.
 */
export const growsTooFast = (regex: RegExp): string | null => {
  if (isLinear(regex)) return null
  const use = useOf(regex)
  for (const textOf of hostileTexts(regex)) {
    const slow = lengths.find((length) => isTooSlow(use, textOf, length))
    if (slow !== undefined) return `${slow} characters like ${JSON.stringify(textOf(40))}`
  }
  return null
}

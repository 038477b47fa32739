import { type KeyObject, timingSafeEqual } from 'node:crypto'
import { signed } from './keys.ts'

/** What the judge saw of a request. */
export type Seen = {
  /** Where it came from. */
  readonly ip: string
  /** Its header lines, in their order and as they were written. */
  readonly headers: readonly (readonly [name: string, value: string])[]
}

/** The judge's whole body: a signature over the nonce and the rest, a line end, the rest as JSON. */
export const answerText = (key: KeyObject, nonce: string, seen: Seen): string => {
  const json = JSON.stringify(seen)
  return `${signed(key, `${nonce}\n${json}`)}\n${json}`
}

/** What the judge saw, or null when these bytes are not its answer to this nonce, whoever wrote them. */
export const readAnswer = (key: KeyObject, nonce: string, body: Buffer): Seen | null => {
  const text = body.toString('utf8')
  const end = text.indexOf('\n')
  const json = text.slice(end + 1)
  const [expected, given] = [
    Buffer.from(signed(key, `${nonce}\n${json}`)),
    Buffer.from(text.slice(0, Math.max(0, end))),
  ]
  if (expected.length !== given.length || !timingSafeEqual(expected, given)) return null
  return JSON.parse(json) as Seen
}

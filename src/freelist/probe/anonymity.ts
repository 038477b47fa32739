import ipaddr from 'ipaddr.js'
import type { Seen } from '../judge/answer.ts'
import { type Anonymity, anonymities } from '../record/endpoint.ts'

export type HeaderLine = readonly [name: string, value: string]

/** A proxy may say how it keeps its own connections; that tells nothing of whom it works for. */
const ofTheConnection: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'te'])

const canonical = (text: string): string => (ipaddr.isValid(text) ? ipaddr.process(text).toString() : text)

/** Every address in a header's value, in whatever list, brackets or quotes it stands, with a port or without. */
const addressesIn = (value: string): readonly string[] =>
  value
    .split(/[^0-9a-fA-F:.]/)
    .flatMap((part) => [part, part.replace(/:\d{1,5}$/, '')])
    .filter((part) => ipaddr.isValid(part) && /[.:]/.test(part))
    .map(canonical)

/**
 * How much of us reaches a target by plain requests of this proxy. Transparent: our address came out, or stands in a header
 * that we did not send. Anonymous: anything else about the request was added, changed or left out, so that a target sees
 * that a proxy was there. Elite: the request came as it was sent.
 * @param ours addresses that this side is seen with when it asks without a proxy
 */
export const anonymityOf = (
  sent: readonly HeaderLine[],
  { ip, headers }: Seen,
  ours: ReadonlySet<string>,
): Anonymity => {
  if (ours.has(canonical(ip))) return 'transparent'
  const key = ([name, value]: HeaderLine): string => `${name.toLowerCase()}: ${value}`
  const [expected, arrived] = [sent, headers].map((lines) =>
    lines.filter(([name]) => !ofTheConnection.has(name.toLowerCase())).map(key),
  ) as [string[], string[]]
  const strange = headers.filter((line) => !expected.includes(key(line)))
  if (strange.some(([, value]) => addressesIn(value).some((address) => ours.has(address))))
    return 'transparent'
  return arrived.length === expected.length && arrived.every((line) => expected.includes(line))
    ? 'elite'
    : 'anonymous'
}

/** Null for none. */
export const worstOf = (all: readonly Anonymity[]): Anonymity | null =>
  anonymities.findLast((one) => all.includes(one)) ?? null

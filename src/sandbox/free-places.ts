import { plannedExits } from './exit-places.ts'

/** Where an address of the sandbox is said to be, so that its free proxies have countries and networks. */
export type SandboxPlace = {
  readonly country: string
  readonly state: string
  readonly city: string
  readonly asn: number
  readonly org: string
}

/** A /29 each, in turn, through all of 127.80.0.0/12. */
const places: readonly SandboxPlace[] = plannedExits
  .filter(({ terms }) => terms.family === 'residential')
  .flatMap(({ terms: { covers } }) => covers)
  .flatMap(({ country, states, cities, isps }) => {
    const [state, city, isp] = [states[0], cities[0], isps[0]]
    const asn = isp?.asns[0]
    if (!state || !city || !isp || asn === undefined) return []
    return [{ country, state: state.name, city: city.name, asn, org: isp.name }]
  })

const first = 127 * 2 ** 24 + 80 * 2 ** 16
const size = 2 ** 20
const block = 8

const numberOf = (ip: string): number => ip.split('.').reduce((sum, octet) => sum * 256 + Number(octet), 0)
const textOf = (number: number): string =>
  [24, 16, 8, 0].map((shift) => Math.floor(number / 2 ** shift) % 256).join('.')

/** Null: not an address of the sandbox. */
export const sandboxPlaceOf = (ip: string): SandboxPlace | null => {
  const offset = ip.includes(':') ? -1 : numberOf(ip) - first
  if (offset < 0 || offset >= size) return null
  return places[Math.floor(offset / block) % places.length] ?? null
}

/** The ranges of addresses that a network has in the sandbox, in rising order. */
export const sandboxRangesOf = (asn: number): readonly { readonly first: string; readonly last: string }[] =>
  Array.from({ length: size / block }, (_, at) => at)
    .filter((at) => places[at % places.length]?.asn === asn)
    .map((at) => ({
      first: textOf(first + at * block),
      last: textOf(first + at * block + block - 1),
    }))

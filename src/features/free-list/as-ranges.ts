import { createReadStream } from 'node:fs'

/** The network that announces an address: its AS number and its operator. */
export type Network = { readonly asn: number; readonly org: string }

/** The first and the last address of a range. */
export type Range<Address> = { readonly first: Address; readonly last: Address }

/** Disjoint address ranges in ascending order, each with its AS number. */
export type AsRanges<Address> = {
  /** Null: no network announces the address. */
  of(address: Address): Network | null
  /** The ranges that a network announces, in ascending order. */
  announcedBy(asn: number): readonly Range<Address>[]
}

/** Network names, shared by both address families because most networks have addresses of both. */
export type NetworkNames = Map<number, string>

/** The fourth field. It is quoted if it contains a comma, with inner quotes doubled (RFC 4180). */
const nameOf = (field: string): string =>
  field.startsWith('"') ? field.slice(1, -1).replaceAll('""', '"') : field

type Line = { readonly first: string; readonly last: string; readonly asn: number; readonly name: string }

const lineOf = (text: string): Line => {
  const a = text.indexOf(',')
  const b = text.indexOf(',', a + 1)
  const c = text.indexOf(',', b + 1)
  return {
    first: text.slice(0, a),
    last: text.slice(a + 1, b),
    asn: Number(text.slice(b + 1, c)),
    name: nameOf(text.slice(c + 1)),
  }
}

/**
 * Reads a file line by line in small parts, so that other work of the process can run between them.
 * @throws file system errors
 */
const eachLine = async (file: string, onLine: (line: Line) => void): Promise<void> => {
  let rest = ''
  for await (const part of createReadStream(file, { encoding: 'utf8', highWaterMark: 65_536 })) {
    const lines = (rest + part).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) if (line !== '') onLine(lineOf(line.trimEnd()))
  }
  if (rest !== '') onLine(lineOf(rest.trimEnd()))
}

/** The index of the last of the ascending `starts` that is not above the address; -1: all are above. */
const lastNotAbove = <Address extends number | bigint>(
  starts: ArrayLike<Address>,
  address: Address,
): number => {
  let low = 0
  let high = starts.length - 1
  while (low <= high) {
    const middle = (low + high) >> 1
    if (starts[middle]! <= address) low = middle + 1
    else high = middle - 1
  }
  return high
}

const rangesOver = <Address extends number | bigint>(
  firsts: ArrayLike<Address>,
  lasts: ArrayLike<Address>,
  asns: Uint32Array,
  names: NetworkNames,
): AsRanges<Address> => ({
  of: (address) => {
    const at = lastNotAbove(firsts, address)
    if (at < 0 || address > lasts[at]!) return null
    const asn = asns[at]!
    return { asn, org: names.get(asn) ?? `AS${asn}` }
  },
  announcedBy: (asn) => {
    const found: Range<Address>[] = []
    for (let at = asns.indexOf(asn); at >= 0; at = asns.indexOf(asn, at + 1))
      found.push({ first: firsts[at]!, last: lasts[at]! })
    return found
  },
})

/** @param file `asn-ipv4-num.csv`: first and last address as integers, AS number, name */
export const readAsRanges4 = async (file: string, names: NetworkNames): Promise<AsRanges<number>> => {
  const [firsts, lasts, asns]: [number[], number[], number[]] = [[], [], []]
  await eachLine(file, ({ first, last, asn, name }) => {
    firsts.push(Number(first))
    lasts.push(Number(last))
    asns.push(asn)
    names.set(asn, name)
  })
  return rangesOver(Uint32Array.from(firsts), Uint32Array.from(lasts), Uint32Array.from(asns), names)
}

/** @param file `asn-ipv6-num.csv`, the same with 128-bit integers */
export const readAsRanges6 = async (file: string, names: NetworkNames): Promise<AsRanges<bigint>> => {
  const [firsts, lasts, asns]: [bigint[], bigint[], number[]] = [[], [], []]
  await eachLine(file, ({ first, last, asn, name }) => {
    firsts.push(BigInt(first))
    lasts.push(BigInt(last))
    asns.push(asn)
    names.set(asn, name)
  })
  return rangesOver(firsts, lasts, Uint32Array.from(asns), names)
}

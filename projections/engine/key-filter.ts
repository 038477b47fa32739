/** Keys of rows, of which it tells surely that one was never added: a Bloom filter. Its size never changes. */
export type KeyFilter = {
  add(table: string, key: string): void
  /** False: it was never added. True: it was, or, the more keys there are the likelier, another one looks like it. */
  mayHave(table: string, key: string): boolean
}

/** 8 MiB: of a million keys one in 3,000 others looks added, of ten millions one in 20. */
const defaultBits = 2 ** 26
const probes = 3

const seeds = new Map<string, number>()
const mixed = (text: string, seed: number): number => {
  let hash = seed
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return hash
}
const seedOf = (table: string): number => {
  let seed = seeds.get(table)
  if (seed === undefined) {
    seed = mixed(table, 0x811c9dc5)
    seeds.set(table, seed)
  }
  return seed
}

/** @param bits a power of two, at least 8 */
export const createKeyFilter = (bits = defaultBits): KeyFilter => {
  const bytes = new Uint8Array(bits / 8)
  const mask = bits - 1
  const each = (table: string, key: string, sees: (byte: number, bit: number) => boolean): boolean => {
    const hash = mixed(key, seedOf(table))
    let place = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d)
    place ^= place >>> 12
    let step = Math.imul(place, 0x297a2d39)
    step = (step ^ (step >>> 15)) | 1
    for (let probe = 0; probe < probes; probe += 1) {
      const at = (place + probe * step) & mask
      if (!sees(at >>> 3, 1 << (at & 7))) return false
    }
    return true
  }
  return {
    add: (table, key) => {
      each(table, key, (byte, bit) => {
        bytes[byte] = (bytes[byte] as number) | bit
        return true
      })
    },
    mayHave: (table, key) => each(table, key, (byte, bit) => ((bytes[byte] as number) & bit) !== 0),
  }
}

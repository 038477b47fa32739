import { createHash, timingSafeEqual } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { PlanId, ProxyId } from '../../kernel/ids.ts'
import type { Credentials } from '../../platform/vault/credentials.ts'

/** After a rotation the former password works for this long, milliseconds. */
export const rotationGraceMs = 120_000

export type Passwords = {
  /** Which generation this is the password of; null: of none that works. Every comparison takes the same time. */
  generationOf(
    holder: {
      readonly id: PlanId | ProxyId
      readonly generation: number
      readonly rotatedAtMs: number | null
    },
    password: string,
    nowMs: number,
  ): number | null
  /** Takes as long as a comparison and finds nothing, for a username that nobody has. */
  nobody(password: string): void
}

const digestOf = (text: string): Buffer => createHash('sha256').update(text).digest()
const nobodys = digestOf('')
const maxDigests = 100_000

/** Compares digests, so that neither the length nor a common beginning can be told from the time. */
export const createPasswords = (credentials: Credentials): Passwords => {
  const digests = new LRUCache<string, Buffer>({ max: maxDigests })
  const expected = (id: PlanId | ProxyId, generation: number): Buffer => {
    const key = `${id}/${generation}`
    const cached = digests.get(key)
    if (cached) return cached
    const digest = digestOf(credentials.of(id, generation).password)
    digests.set(key, digest)
    return digest
  }
  return {
    generationOf: ({ id, generation, rotatedAtMs }, password, nowMs) => {
      const given = digestOf(password)
      const current = timingSafeEqual(given, expected(id, generation))
      const inGrace = rotatedAtMs !== null && nowMs < rotatedAtMs + rotationGraceMs && generation > 0
      const former = timingSafeEqual(given, expected(id, Math.max(0, generation - 1)))
      if (current) return generation
      return former && inGrace ? generation - 1 : null
    },
    nobody: (password) => {
      const given = digestOf(password)
      timingSafeEqual(given, nobodys)
      timingSafeEqual(given, nobodys)
    },
  }
}

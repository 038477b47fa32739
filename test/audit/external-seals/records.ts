import { createHash } from 'node:crypto'
import type { SealRecord } from '../../../src/audit/external-seals/seal-record.ts'
import {
  rotationStatement,
  type SealKey,
  sealKeyOf,
  sealStatement,
} from '../../../src/audit/seals/seals-file.ts'

export const keyOf = (n: number): SealKey => sealKeyOf(Buffer.alloc(32, n))

const idOf = (n: number): string => `01890000-0000-7000-8000-${String(n).padStart(12, '0')}`
const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex')
const timeOf = (n: number): string => new Date(Date.UTC(2026, 0, 5, 0, n)).toISOString()

/**
 * A seal of an invented log in which each seal covers ten more events; another `history` has other events.
 */
export const sealAt = (revision: number, key: SealKey, ordinal: number, history = 'one'): SealRecord => {
  const unsigned = {
    throughOrdinal: ordinal,
    throughEventId: idOf(ordinal),
    digest: digestOf(`${history} ${ordinal}`),
    sealedAt: timeOf(revision),
    publicKey: key.publicKey,
  }
  const data = { ...unsigned, signature: key.sign(sealStatement(unsigned)) }
  return { firstEventId: idOf(1), revision, event: { type: 'LogSealed', data } }
}

export const rotationAt = (revision: number, from: SealKey, to: SealKey, after: SealRecord): SealRecord => {
  if (after.event.type !== 'LogSealed') throw new Error('a key is handed over behind a seal')
  const unsigned = {
    sealedOrdinal: after.event.data.throughOrdinal,
    sealedDigest: after.event.data.digest,
    previousPublicKey: from.publicKey,
    publicKey: to.publicKey,
    rotatedAt: timeOf(revision),
  }
  const data = { ...unsigned, signature: from.sign(rotationStatement(unsigned)) }
  return { firstEventId: idOf(1), revision, event: { type: 'SealKeyRotated', data } }
}

/**
 * Records signed by the first key; with `handover` the record of that revision hands over to the second key,
 * which signs the later ones.
 */
export const records = (count: number, handover = Number.POSITIVE_INFINITY): SealRecord[] => {
  const made: SealRecord[] = []
  let ordinal = 0
  for (let revision = 0; revision < count; revision += 1) {
    if (revision === handover) made.push(rotationAt(revision, keyOf(1), keyOf(2), made.at(-1)!))
    else {
      if (revision !== handover + 1) ordinal += 10
      made.push(sealAt(revision, keyOf(revision > handover ? 2 : 1), ordinal))
    }
  }
  return made
}

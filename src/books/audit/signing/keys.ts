import type { KeyObject } from 'node:crypto'
import type { StoredEvent } from '../../../platform/eventstore/port.ts'
import type { BatchSigningStopped, ProcessKeyIntroduced, SealKeyRotated } from '../events.ts'
import { foreignObject } from '../foreign-json.ts'
import { isSigned, publicKeyObject, rotationIsSigned } from '../seal-key.ts'
import { introductionStatement, stopStatement } from './statements.ts'

/** A key that the key which seals introduced. */
export type IntroducedKey = {
  readonly publicKey: string
  /** The log that it signs for. */
  readonly logId: string
  readonly verifier: KeyObject
  readonly endsAt: string
  readonly previousPublicKey: string | null
  readonly previousBatches: number
}

/** What an event that may be anybody's says, unchecked: its signature is looked at before anything else is believed. */
const dataOf = <Data extends object>({ data }: Pick<StoredEvent, 'data'>): Data | null =>
  foreignObject<Data>(data) as Data | null

/** Which key seals the log, as its events pass by: the one that it began with, and those that it handed over to. */
export type SealingKey = {
  publicKey(): string
  /** An event of the `seal` stream. */
  pass(event: Pick<StoredEvent, 'type' | 'data'>): void
}

export const followSealingKey = (first: string): SealingKey => {
  let current = first
  return {
    publicKey: () => current,
    pass(event) {
      if (event.type !== 'SealKeyRotated') return
      const rotation = dataOf<SealKeyRotated['data']>(event)
      if (rotation?.previousPublicKey === current && rotationIsSigned(rotation)) current = rotation.publicKey
    },
  }
}

/** The key that an event of the `seal` stream leaves in force; null when it is no such event. */
export const keyAfter = (event: Pick<StoredEvent, 'data'>): string | null =>
  dataOf<SealKeyRotated['data']>(event)?.publicKey ?? null

/** The key that was in force before the first event of the `seal` stream. */
export const keyBefore = (event: Pick<StoredEvent, 'type' | 'data'>): string | null => {
  const data = dataOf<SealKeyRotated['data']>(event)
  return (event.type === 'SealKeyRotated' ? data?.previousPublicKey : data?.publicKey) ?? null
}

/** The key that an event introduces, or why it introduces none. */
export const readIntroduction = (
  event: Pick<StoredEvent, 'data'>,
  sealingKey: string,
): IntroducedKey | string => {
  const key = dataOf<ProcessKeyIntroduced['data']>(event)
  if (key === null) return 'its introduction cannot be read'
  if (key.sealPublicKey !== sealingKey)
    return `it was introduced under the key ${key.sealPublicKey}, but ${sealingKey} seals the log`
  if (!isSigned(sealingKey, introductionStatement(key), key.signature))
    return 'the key that seals the log did not sign its introduction'
  const { publicKey, logId, endsAt, previousPublicKey, previousBatches } = key
  return {
    publicKey,
    logId,
    verifier: publicKeyObject(publicKey),
    endsAt,
    previousPublicKey,
    previousBatches,
  }
}

/** Null when the key that seals the log says here that signing stops, else why it does not. */
export const stopProblem = (
  event: Pick<StoredEvent, 'data' | 'revision'>,
  logId: string,
  sealingKey: string,
): string | null => {
  const stop = dataOf<BatchSigningStopped['data']>(event)
  if (stop?.number !== event.revision + 1) return 'it says that it is another stop than it is'
  if (stop.sealPublicKey !== sealingKey || !isSigned(sealingKey, stopStatement(logId, stop), stop.signature))
    return 'the key that seals the log did not sign it'
  return null
}

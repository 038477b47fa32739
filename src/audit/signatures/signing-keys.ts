import type { KeyObject } from 'node:crypto'
import type { BatchSigningStopped, ProcessKeyIntroduced, SealKeyRotated } from '../../domain/seals/events.ts'
import { parseUntrustedObject } from '../../kernel/json-text.ts'
import type { StoredEvent } from '../../platform/eventstore/port.ts'
import { isSigned, publicKeyObject, rotationIsSigned } from '../seals/seals-file.ts'

/** The text that the introduction of a process key signs. Every line ends with a line feed. */
export const introductionStatement = (key: Omit<ProcessKeyIntroduced['data'], 'signature'>): string =>
  `farebox process key v1\n${key.publicKey}\n${key.logId}\n${key.process}\n${key.introducedAt}\n${key.endsAt}\n${key.previousPublicKey ?? ''}\n${key.previousBatches}\n${key.sealPublicKey}\n`

/** The text that the stop of signing signs. */
export const stopStatement = (logId: string, stop: Omit<BatchSigningStopped['data'], 'signature'>): string =>
  `farebox signing stopped v1\n${logId}\n${stop.number}\n${stop.process}\n${stop.stoppedAt}\n${stop.sealPublicKey}\n`

/** A process key that the sealing key introduced. */
export type IntroducedKey = {
  readonly publicKey: string
  /** The log that the key signs. */
  readonly logId: string
  readonly verifier: KeyObject
  readonly endsAt: string
  readonly previousPublicKey: string | null
  readonly previousBatches: number
}

/**
 * The data of an event from an untrusted source, unchecked. Callers verify the signature before they use the other
 * fields.
 */
const dataOf = <Data extends object>({ data }: Pick<StoredEvent, 'data'>): Data | null =>
  parseUntrustedObject<Data>(data) as Data | null

/** The current sealing key while events are read: the first key, then the keys that it handed over to. */
export type SealingKey = {
  publicKey(): string
  /** Takes an event of the `seal` stream. */
  pass(event: Pick<StoredEvent, 'type' | 'data'>): void
}

export const followSealingKey = (first: string): SealingKey => {
  let currentKey = first
  return {
    publicKey: () => currentKey,
    pass(event) {
      if (event.type !== 'SealKeyRotated') return
      const rotation = dataOf<SealKeyRotated['data']>(event)
      if (rotation?.previousPublicKey === currentKey && rotationIsSigned(rotation))
        currentKey = rotation.publicKey
    },
  }
}

/** The sealing key after an event of the `seal` stream; null when the event names none. */
export const keyAfter = (event: Pick<StoredEvent, 'data'>): string | null =>
  dataOf<SealKeyRotated['data']>(event)?.publicKey ?? null

/** The sealing key before the first event of the `seal` stream. */
export const keyBefore = (event: Pick<StoredEvent, 'type' | 'data'>): string | null => {
  const data = dataOf<SealKeyRotated['data']>(event)
  return (event.type === 'SealKeyRotated' ? data?.previousPublicKey : data?.publicKey) ?? null
}

/** The key that an event introduces, or the reason why it is invalid. */
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

/** The reason why an event does not validly stop signing; null when the sealing key signed the stop. */
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

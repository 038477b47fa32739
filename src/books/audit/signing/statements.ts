import { writeInt8 } from '../../../kernel/binary.ts'
import { sha256 } from '../../../kernel/hash.ts'
import { createEventDigest, type DigestedEvent } from '../digest.ts'
import type { BatchSigningStopped, ProcessKeyIntroduced } from '../events.ts'

/** What the introduction of a process's key signs. Every line ends with a line feed. */
export const introductionStatement = (key: Omit<ProcessKeyIntroduced['data'], 'signature'>): string =>
  `farebox process key v1\n${key.publicKey}\n${key.logId}\n${key.process}\n${key.introducedAt}\n${key.endsAt}\n${key.previousPublicKey ?? ''}\n${key.previousBatches}\n${key.sealPublicKey}\n`

/** What stopping to sign signs. */
export const stopStatement = (logId: string, stop: Omit<BatchSigningStopped['data'], 'signature'>): string =>
  `farebox signing stopped v1\n${logId}\n${stop.number}\n${stop.process}\n${stop.stoppedAt}\n${stop.sealPublicKey}\n`

/** What stands in a batch beside its events. */
export type BatchPlace = {
  readonly number: number
  readonly previousPosition: number
  readonly count: number
}

const heading = Buffer.from('farebox batch v1\n')
const logIdAt = heading.length
const publicKeyAt = logIdAt + 16
const numbersAt = publicKeyAt + 32
const digestAt = numbersAt + 24
const statementBytes = digestAt + 32

/** Before the first event of each batch. */
const start = sha256('farebox batch v1')

/**
 * Makes what the signature of a batch is over (docs/seals.md has the bytes): the log, the key, the batch's place, and a
 * digest of its events as they are stored, chained as that of the log is.
 * @param logId a UUID
 */
export const createBatchStatement = (logId: string) => {
  const digestOf = createEventDigest()
  const log = Buffer.from(logId.replaceAll('-', ''), 'hex')
  return (publicKey: Uint8Array, place: BatchPlace, events: Iterable<DigestedEvent>): Buffer => {
    const statement = Buffer.allocUnsafe(statementBytes)
    heading.copy(statement)
    log.copy(statement, logIdAt)
    statement.set(publicKey, publicKeyAt)
    writeInt8(statement, place.number, numbersAt)
    writeInt8(statement, place.previousPosition, numbersAt + 8)
    writeInt8(statement, place.count, numbersAt + 16)
    let digest = start
    let ordinal = 0
    for (const event of events) {
      ordinal += 1
      digest = digestOf(digest, ordinal, event)
    }
    digest.copy(statement, digestAt)
    return statement
  }
}

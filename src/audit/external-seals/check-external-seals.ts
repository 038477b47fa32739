import type { LogSealed, SealEvent } from '../../domain/seals/events.ts'
import { startDigest } from '../seals/digests.ts'
import { walkKeys } from '../seals/seals-file.ts'
import { firstRecordsDigest, lastRun, nextRecordsDigest, type WitnessFile } from './external-seals.ts'
import { recordText, type SealRecord } from './seal-record.ts'

/** The reason why a witness stops. Its file stays unchanged. */
export type SealMismatch = {
  readonly code:
    | 'seals_forked'
    | 'seals_rewritten'
    | 'seals_cut'
    | 'seals_missing'
    | 'seals_not_genuine'
    | 'seals_of_another_log'
  readonly message: string
  /** The stored and the received record; null when there is none. */
  readonly pinned: Pick<SealRecord, 'revision' | 'event'> | null
  readonly seen: Pick<SealRecord, 'revision' | 'event'> | null
}

export class SealMismatchError extends Error {
  override readonly name = 'SealMismatchError'
  readonly mismatch: SealMismatch
  constructor(mismatch: SealMismatch) {
    super(mismatch.message)
    this.mismatch = mismatch
  }
}

/** The number of records in the file of a witness. All key rotations are stored in addition. */
const maxRecords = 100

const mismatch = (
  code: SealMismatch['code'],
  message: string,
  details: Partial<SealMismatch> = {},
): SealMismatchError => new SealMismatchError({ code, message, pinned: null, seen: null, ...details })

/**
 * The problem of an event's ordinal; null without one. A seal covers more events than the seal before it, or the same
 * events after a key rotation.
 */
const orderProblem = (event: SealEvent, last: LogSealed['data'] | null): string | null => {
  const [ordinal, digest] =
    event.type === 'LogSealed'
      ? [event.data.throughOrdinal, event.data.digest]
      : [event.data.sealedOrdinal, event.data.sealedDigest]
  const previousOrdinal = last?.throughOrdinal ?? 0
  if (ordinal < previousOrdinal)
    return `it covers ${ordinal} events, fewer than the ${previousOrdinal} of the seal before it`
  if (ordinal === previousOrdinal && digest !== (last?.digest ?? startDigest().toString('hex')))
    return `it has another digest of the same ${ordinal} events than the seal before it`
  if (event.type === 'SealKeyRotated' && ordinal !== previousOrdinal)
    return `it hands the key over behind ${ordinal} events, but the seal before it covers ${previousOrdinal}`
  return null
}

export type CheckedSeals = {
  readonly file: Omit<WitnessFile, 'witness'>
  /** The number of new records. */
  readonly news: number
}

/**
 * Compares the records of a seal target with those of the previous check, and adds the new ones.
 * @param previousFile the file of the previous check; null at the first check
 * @param records in order, without gaps; they start at or before the newest stored record, or anywhere at the
 * first check
 * @param publicKey the key that must have signed
 * @throws SealMismatchError
 */
export const checkExternalSeals = async (
  previousFile: WitnessFile | null,
  records: AsyncIterable<SealRecord> | Iterable<SealRecord>,
  publicKey: string,
): Promise<CheckedSeals> => {
  const keys = walkKeys(publicKey)
  const textByRevision = previousFile === null ? new Map<number, string>() : lastRun(previousFile)
  const fileRecords = [...(previousFile?.records ?? [])]
  for (const { event } of fileRecords) keys.step(event)
  let last: LogSealed['data'] | null = null
  for (const { event } of fileRecords) if (event.type === 'LogSealed') last = event.data
  let firstEventId = previousFile?.firstEventId ?? null
  let since = previousFile?.since ?? null
  let digest = previousFile === null ? firstRecordsDigest() : Buffer.from(previousFile.recordsDigest, 'hex')
  let recheckedDigest: Buffer | null = null
  let nextRevision: number | null = null
  let newCount = 0

  const checkStoredRecord = ({ revision, event }: SealRecord, text: string): void => {
    const pinnedText = textByRevision.get(revision)
    if (pinnedText !== undefined && pinnedText !== text) {
      const pinned = fileRecords.find((fileRecord) => fileRecord.revision === revision) ?? null
      const genuineKeys = walkKeys(publicKey)
      const isHistoryTrusted = (previousFile?.records ?? [])
        .filter((fileRecord) => fileRecord.revision < revision)
        .every((fileRecord) => genuineKeys.step(fileRecord.event) === null)
      const isForked = genuineKeys.step(event) === null && isHistoryTrusted
      throw mismatch(
        isForked ? 'seals_forked' : 'seals_rewritten',
        isForked
          ? `seal ${revision} has changed, and both versions are signed: the owner of the key made two histories`
          : `seal ${revision} has changed, and is not genuine: another writer changed the storage`,
        { pinned, seen: { revision, event } },
      )
    }
    if (revision === since) recheckedDigest = firstRecordsDigest()
    if (recheckedDigest !== null) recheckedDigest = nextRecordsDigest(recheckedDigest, text)
    if (
      previousFile !== null &&
      revision === previousFile.revision &&
      recheckedDigest !== null &&
      !recheckedDigest.equals(digest)
    )
      throw mismatch(
        'seals_rewritten',
        `the records ${since} to ${revision} are not those that were taken at their time: one of before the last ${textByRevision.size} was changed`,
      )
  }

  const addNewRecord = ({ revision, event }: SealRecord, text: string): void => {
    const seen = { revision, event }
    const problem = keys.step(event)
    if (problem !== null)
      throw mismatch('seals_not_genuine', `seal ${revision} is not genuine: ${problem}`, { seen })
    const orderMismatch =
      last === null && since !== 0 && since === revision ? null : orderProblem(event, last)
    if (orderMismatch !== null)
      throw mismatch('seals_forked', `seal ${revision} does not follow: ${orderMismatch}`, { seen })
    fileRecords.push(seen)
    if (event.type === 'LogSealed') last = event.data
    digest = nextRecordsDigest(digest, text)
    newCount += 1
  }

  for await (const record of records) {
    const { revision } = record
    firstEventId ??= record.firstEventId
    since ??= revision
    if (record.firstEventId !== firstEventId)
      throw mismatch(
        'seals_of_another_log',
        `seal ${revision} is of the log that begins with event ${record.firstEventId}; this witness watches the one that begins with ${firstEventId}`,
        { seen: { revision, event: record.event } },
      )
    const expected: number = nextRevision ?? Math.min(revision, previousFile?.revision ?? revision)
    if (revision !== expected)
      throw mismatch(
        'seals_missing',
        `after seal ${expected - 1} comes seal ${revision}: those between are missing`,
      )
    nextRevision = revision + 1
    const text = recordText(record)
    if (previousFile !== null && revision <= previousFile.revision) checkStoredRecord(record, text)
    else addNewRecord(record, text)
  }

  const end = (nextRevision ?? 0) - 1
  if (previousFile !== null && end < previousFile.revision)
    throw mismatch(
      'seals_cut',
      `${nextRevision === null ? 'there is no seal' : `it ends with seal ${end}`}, but seal ${previousFile.revision} was there at ${previousFile.witness.witnessedAt}: its end was cut off`,
      { pinned: fileRecords.at(-1) ?? null },
    )
  if (firstEventId === null || since === null || last === null)
    throw mismatch('seals_missing', 'there is no seal yet')
  if (!keys.trusted())
    throw mismatch(
      'seals_not_genuine',
      `none of its seals is by the key ${publicKey}, or by one that it handed over to; the last is by ${keys.publicKey}`,
    )
  const oldRotations = fileRecords
    .slice(0, -maxRecords)
    .filter(({ event }) => event.type === 'SealKeyRotated')
  const storedRecords = [...oldRotations, ...fileRecords.slice(-maxRecords)]
  return {
    file: {
      format: 'farebox-witness',
      version: 1,
      firstEventId,
      publicKey,
      since,
      revision: storedRecords.at(-1)?.revision ?? 0,
      recordsDigest: digest.toString('hex'),
      records: storedRecords,
    },
    news: newCount,
  }
}

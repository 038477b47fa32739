import type { LogSealed, SealEvent } from '../../domain/seals/events.ts'
import { startDigest } from '../seals/digests.ts'
import { walkKeys } from '../seals/seals-file.ts'
import { recordText, type SealRecord } from './seal-record.ts'
import { firstRecordsDigest, lastRun, nextRecordsDigest, type WitnessFile } from './witness-file.ts'

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
const window = 100

const mismatch = (
  code: SealMismatch['code'],
  message: string,
  rest: Partial<SealMismatch> = {},
): SealMismatchError => new SealMismatchError({ code, message, pinned: null, seen: null, ...rest })

/**
 * The problem of an event's ordinal; null without one. A seal covers more events than the seal before it, or the same
 * events after a key rotation.
 */
const orderProblem = (event: SealEvent, last: LogSealed['data'] | null): string | null => {
  const [ordinal, digest] =
    event.type === 'LogSealed'
      ? [event.data.throughOrdinal, event.data.digest]
      : [event.data.sealedOrdinal, event.data.sealedDigest]
  const before = last?.throughOrdinal ?? 0
  if (ordinal < before) return `it covers ${ordinal} events, fewer than the ${before} of the seal before it`
  if (ordinal === before && digest !== (last?.digest ?? startDigest().toString('hex')))
    return `it has another digest of the same ${ordinal} events than the seal before it`
  if (event.type === 'SealKeyRotated' && ordinal !== before)
    return `it hands the key over behind ${ordinal} events, but the seal before it covers ${before}`
  return null
}

export type CheckedSeals = {
  readonly file: Omit<WitnessFile, 'witness'>
  /** The number of new records. */
  readonly news: number
}

/**
 * Compares the records of a seal target with those of the previous check, and adds the new ones.
 * @param kept the file of the previous check; null at the first check
 * @param records in order, without gaps; they start at or before the newest stored record, or anywhere at the
 * first check
 * @param publicKey the key that must have signed
 * @throws SealMismatchError
 */
export const checkExternalSeals = async (
  kept: WitnessFile | null,
  records: AsyncIterable<SealRecord> | Iterable<SealRecord>,
  publicKey: string,
): Promise<CheckedSeals> => {
  const keys = walkKeys(publicKey)
  const run = kept === null ? new Map<number, string>() : lastRun(kept)
  const file = [...(kept?.records ?? [])]
  for (const { event } of file) keys.step(event)
  let last: LogSealed['data'] | null = null
  for (const { event } of file) if (event.type === 'LogSealed') last = event.data
  let firstEventId = kept?.firstEventId ?? null
  let since = kept?.since ?? null
  let digest = kept === null ? firstRecordsDigest() : Buffer.from(kept.recordsDigest, 'hex')
  let again: Buffer | null = null
  let next: number | null = null
  let news = 0

  const holdKept = ({ revision, event }: SealRecord, text: string): void => {
    const pinnedText = run.get(revision)
    if (pinnedText !== undefined && pinnedText !== text) {
      const pinned = file.find((each) => each.revision === revision) ?? null
      const genuine = walkKeys(publicKey)
      const trusted = (kept?.records ?? [])
        .filter((each) => each.revision < revision)
        .every((each) => genuine.step(each.event) === null)
      const forked = genuine.step(event) === null && trusted
      throw mismatch(
        forked ? 'seals_forked' : 'seals_rewritten',
        forked
          ? `seal ${revision} is another one now, and both are signed: whoever holds the key made two histories`
          : `seal ${revision} is another one now, and it is not genuine: the place was written to by somebody else`,
        { pinned, seen: { revision, event } },
      )
    }
    if (revision === since) again = firstRecordsDigest()
    if (again !== null) again = nextRecordsDigest(again, text)
    if (kept !== null && revision === kept.revision && again !== null && !again.equals(digest))
      throw mismatch(
        'seals_rewritten',
        `the records ${since} to ${revision} are not those that were taken at their time: one of before the last ${run.size} was changed`,
      )
  }

  const takeNew = ({ revision, event }: SealRecord, text: string): void => {
    const seen = { revision, event }
    const problem = keys.step(event)
    if (problem !== null)
      throw mismatch('seals_not_genuine', `seal ${revision} is not genuine: ${problem}`, { seen })
    const order = last === null && since !== 0 && since === revision ? null : orderProblem(event, last)
    if (order !== null) throw mismatch('seals_forked', `seal ${revision} does not follow: ${order}`, { seen })
    file.push(seen)
    if (event.type === 'LogSealed') last = event.data
    digest = nextRecordsDigest(digest, text)
    news += 1
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
    const expected: number = next ?? Math.min(revision, kept?.revision ?? revision)
    if (revision !== expected)
      throw mismatch(
        'seals_missing',
        `after seal ${expected - 1} comes seal ${revision}: those between are missing`,
      )
    next = revision + 1
    const text = recordText(record)
    if (kept !== null && revision <= kept.revision) holdKept(record, text)
    else takeNew(record, text)
  }

  const end = (next ?? 0) - 1
  if (kept !== null && end < kept.revision)
    throw mismatch(
      'seals_cut',
      `${next === null ? 'there is no seal' : `it ends with seal ${end}`}, but seal ${kept.revision} was there at ${kept.witness.witnessedAt}: its end was cut off`,
      { pinned: file.at(-1) ?? null },
    )
  if (firstEventId === null || since === null || last === null)
    throw mismatch('seals_missing', 'there is no seal yet')
  if (!keys.trusted())
    throw mismatch(
      'seals_not_genuine',
      `none of its seals is by the key ${publicKey}, or by one that it handed over to; the last is by ${keys.publicKey}`,
    )
  const old = file.slice(0, -window).filter(({ event }) => event.type === 'SealKeyRotated')
  const taken = [...old, ...file.slice(-window)]
  return {
    file: {
      format: 'farebox-witness',
      version: 1,
      firstEventId,
      publicKey,
      since,
      revision: taken.at(-1)?.revision ?? 0,
      recordsDigest: digest.toString('hex'),
      records: taken,
    },
    news,
  }
}

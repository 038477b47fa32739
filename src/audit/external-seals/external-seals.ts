import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import type { LogSealed, SealEvent } from '../../domain/seals/events.ts'
import type { Clock } from '../../kernel/clock.ts'
import { sha256 } from '../../kernel/digest.ts'
import { CliMisuse, CliRefusal } from '../../platform/cli/output.ts'
import {
  parseStoreLocation,
  type Store,
  StoreFailed,
  type StoreLocation,
} from '../../platform/outgoing/object-store.ts'
import { openStore, type StoreSettings } from '../../platform/outgoing/open-object-store.ts'
import {
  isSigned,
  readPublicKey,
  readSeals,
  type SealKey,
  SealsFileRefused,
  sealEventForm,
  trustedSeals,
  walkKeys,
} from '../seals/seals-file.ts'
import { parseRecord, recordName, recordText, type SealRecord } from './seal-record.ts'
import { accessProblem } from './settings.ts'

const parseNamedRecord = (name: string, text: string): SealRecord => {
  try {
    return parseRecord(text)
  } catch (error) {
    if (error instanceof SealsFileRefused) throw new SealsFileRefused(`${name}: ${error.message}`)
    throw error
  }
}

/**
 * The records of a store from a revision on, until the first missing file.
 * @throws StoreFailed
 * @throws SealsFileRefused when a file is not a record or its name has another revision
 */
export async function* readRecords(store: Pick<Store, 'get'>, from: number): AsyncIterable<SealRecord> {
  for (let revision = from; ; revision += 1) {
    const name = recordName(revision)
    const text = await store.get(name)
    if (text === null) return
    const record = parseNamedRecord(name, text)
    if (record.revision !== revision)
      throw new SealsFileRefused(`${name}: it is the seal of revision ${record.revision}`)
    yield record
  }
}

/**
 * Parses records, one per line: the concatenated files of a store.
 * @throws SealsFileRefused
 */
export const parseRecords = (text: string): readonly SealRecord[] => {
  if (text !== '' && !text.endsWith('\n'))
    throw new SealsFileRefused('its last line has no end: it was cut off')
  return text
    .split('\n')
    .slice(0, -1)
    .map((line, index) => parseNamedRecord(`line ${index + 1}`, `${line}\n`))
}

/** Seals from outside the database, with the identity of their log. */
export type ExternalSeals = {
  readonly from: string
  /** Null when the source has no log id. */
  readonly logId: string | null
  readonly firstEventId: string
  readonly seals: readonly LogSealed['data'][]
}

const toCliError = (from: string, error: unknown): unknown => {
  if (error instanceof SealsFileRefused) return new CliMisuse(`${from}: ${error.message}`)
  return error instanceof StoreFailed
    ? new CliRefusal('seal_target_failed', `${from}: ${error.message}`)
    : error
}

const sealsOfStore = async (
  from: string,
  location: StoreLocation,
  { access }: StoreSettings,
  clock: Clock,
  publicKey: string,
): Promise<ExternalSeals> => {
  const problem = accessProblem(location, access)
  if (problem !== null) throw new CliMisuse(problem)
  const store = await openStore(location, access, clock)
  const seals: SealEvent[] = []
  let firstEventId: string | null = null
  try {
    for await (const record of readRecords(store, 0)) {
      firstEventId ??= record.firstEventId
      if (record.firstEventId !== firstEventId)
        throw new SealsFileRefused('it holds the seals of several logs')
      seals.push(record.event)
    }
    if (firstEventId === null) throw new SealsFileRefused('it holds no seal')
    return { from, logId: null, firstEventId, seals: trustedSeals({ seals }, publicKey) }
  } catch (error) {
    throw toCliError(from, error)
  } finally {
    await store.close()
  }
}

/**
 * Reads seals from a file of `ledger seals export`, or from a seal target.
 * @throws CliMisuse
 */
export const readExportedSeals = async (
  from: string,
  settings: StoreSettings,
  clock: Clock,
  publicKey: string,
): Promise<ExternalSeals> => {
  const location = /^(?:file:|https?:|s3:)/.test(from) ? parseStoreLocation(from) : null
  if (location !== null) return sealsOfStore(from, location, settings, clock, publicKey)
  const { file, seals } = await readSeals(from, publicKey)
  return { from, logId: file.logId, firstEventId: file.firstEventId, seals }
}

/**
 * Reads the seals that a witness co-signed.
 * @param keyPath the key that the witness must have signed with; omitted: the key in the file is accepted
 * @throws CliMisuse
 */
export const readWitnessedSeals = async (
  path: string,
  keyPath: string | undefined,
  publicKey: string,
): Promise<ExternalSeals> => {
  const key = keyPath === undefined ? null : await readPublicKey(keyPath)
  try {
    const file = parseWitnessFile(await readFile(path, 'utf8'))
    if (key !== null && file.witness.publicKey !== key)
      throw new SealsFileRefused(`the witness ${file.witness.publicKey} signed it, not ${key}`)
    const seals = witnessedSeals(file, publicKey)
    return { from: path, logId: null, firstEventId: file.firstEventId, seals }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== undefined)
      throw new CliMisuse(`${path} cannot be read: ${(error as Error).message}`)
    throw toCliError(path, error)
  }
}

/** The file that a witness stores and signs (docs/finance/seals.md). */
export type WitnessFile = {
  readonly format: 'farebox-witness'
  readonly version: 1
  readonly firstEventId: string
  /** The key that must have signed, pinned at the first run. */
  readonly publicKey: string
  /** The revision of the first record that the witness received. It has received all records from there on. */
  readonly since: number
  /** The revision of the newest record. */
  readonly revision: number
  /** The running digest over the texts of all records from `since` to `revision`. */
  readonly recordsDigest: string
  /** The newest records, and all key rotations. */
  readonly records: readonly Pick<SealRecord, 'revision' | 'event'>[]
  readonly witness: {
    readonly publicKey: string
    /** When the witness last read all of this from the seal target. */
    readonly witnessedAt: string
    readonly signature: string
  }
}

export const firstRecordsDigest = (): Buffer => sha256('farebox witness v1')

/** The running digest after one more record. */
export const nextRecordsDigest = (digest: Buffer, text: string): Buffer =>
  sha256(Buffer.concat([digest, Buffer.from(text)]))

type UnsignedFile = Omit<WitnessFile, 'witness'>

const newestSeal = ({ records }: Pick<WitnessFile, 'records'>): LogSealed['data'] => {
  const last = records.findLast(({ event }) => event.type === 'LogSealed')?.event
  if (last?.type !== 'LogSealed') throw new SealsFileRefused('it holds no seal')
  return last.data
}

/** The text that a witness signs. Every line ends with a line feed. */
export const witnessStatement = (file: UnsignedFile, publicKey: string, witnessedAt: string): string => {
  const { throughOrdinal, throughEventId, digest, publicKey: sealKey } = newestSeal(file)
  const { firstEventId, since, revision, recordsDigest } = file
  return `farebox witness v1\n${firstEventId}\n${since}\n${revision}\n${recordsDigest}\n${throughOrdinal}\n${throughEventId}\n${digest}\n${sealKey}\n${witnessedAt}\n${publicKey}\n`
}

export const cosigned = (file: UnsignedFile, key: SealKey, witnessedAt: string): WitnessFile => ({
  ...file,
  witness: {
    publicKey: key.publicKey,
    witnessedAt,
    signature: key.sign(witnessStatement(file, key.publicKey, witnessedAt)),
  },
})

/** The texts of the consecutive records up to the newest one, by revision. Older rotations are omitted. */
export const lastRun = ({ firstEventId, records }: WitnessFile): ReadonlyMap<number, string> => {
  const texts = new Map<number, string>()
  for (const { revision, event } of records.toReversed()) {
    if (texts.size > 0 && !texts.has(revision + 1)) break
    texts.set(revision, recordText({ firstEventId, revision, event }))
  }
  return texts
}

const hex = (bytes: number) => z.string().regex(new RegExp(`^[0-9a-f]{${2 * bytes}}$`))
const wholeNumber = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER)

const Form = z.strictObject({
  format: z.literal('farebox-witness'),
  version: z.literal(1),
  firstEventId: z.uuid(),
  publicKey: hex(32),
  since: wholeNumber,
  revision: wholeNumber,
  recordsDigest: hex(32),
  records: z.array(z.strictObject({ revision: wholeNumber, type: z.string(), data: z.unknown() })).min(1),
  witness: z.strictObject({ publicKey: hex(32), witnessedAt: z.string(), signature: hex(64) }),
})

export const witnessFileText = (file: WitnessFile): string => {
  const records = file.records.map(({ revision, event }) => ({ revision, ...event }))
  return `${JSON.stringify({ ...file, records }, null, 2)}\n`
}

/** @throws SealsFileRefused when the text is not a witness file, was changed, or its seals are not genuine */
export const parseWitnessFile = (text: string): WitnessFile => {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    throw new SealsFileRefused('it is no JSON; "ledger witness" writes such a file')
  }
  const parsed = Form.safeParse(json)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    throw new SealsFileRefused(
      `it is no file of a witness: ${issue?.path.join('.') || 'its top'} is not as expected (${issue?.message}); "ledger witness" writes one`,
    )
  }
  const records = parsed.data.records.map(({ revision, type, data }, index) => {
    const event = sealEventForm.safeParse({ type, data })
    if (!event.success) throw new SealsFileRefused(`record ${index + 1} of it is no seal`)
    return { revision, event: event.data }
  })
  const file: WitnessFile = { ...parsed.data, records }
  const { publicKey, witnessedAt, signature } = file.witness
  if (!isSigned(publicKey, witnessStatement(file, publicKey, witnessedAt), signature))
    throw new SealsFileRefused('the signature is not that of the witness over what it says: it was changed')
  if (records.at(-1)?.revision !== file.revision || file.since > file.revision)
    throw new SealsFileRefused('its records do not end at its revision')
  return file
}

/**
 * The seals of the file that the pinned key trusts, in order.
 * @throws SealsFileRefused
 */
export const witnessedSeals = (file: WitnessFile, publicKey: string): readonly LogSealed['data'][] => {
  const keys = walkKeys(publicKey)
  const seals: LogSealed['data'][] = []
  for (const { revision, event } of file.records) {
    const problem = keys.step(event)
    if (problem !== null)
      throw new SealsFileRefused(`seal ${revision} of the file is not genuine: ${problem}`)
    if (event.type === 'LogSealed' && keys.trusted()) seals.push(event.data)
  }
  if (seals.length === 0)
    throw new SealsFileRefused(
      `none of its seals is by the key ${publicKey}, or by one that it handed over to`,
    )
  return seals
}

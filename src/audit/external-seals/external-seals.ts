import { readFile } from 'node:fs/promises'
import type { LogSealed, SealEvent } from '../../domain/seals/events.ts'
import type { Clock } from '../../kernel/clock.ts'
import { CliMisuse, CliRefusal } from '../../platform/cli/output.ts'
import {
  parseStoreLocation,
  type Store,
  StoreFailed,
  type StoreLocation,
} from '../../platform/outgoing/object-store.ts'
import { openStore, type StoreSettings } from '../../platform/outgoing/open-object-store.ts'
import { readPublicKey, readSeals, SealsFileRefused, trustedSeals } from '../seals/seals-file.ts'
import { parseRecord, recordName, type SealRecord } from './seal-record.ts'
import { accessProblem } from './settings.ts'
import { parseWitnessFile, witnessedSeals } from './witness-file.ts'

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

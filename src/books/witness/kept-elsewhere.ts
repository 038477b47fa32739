import { readFile } from 'node:fs/promises'
import type { Clock } from '../../kernel/clock.ts'
import { CliMisuse, CliRefusal } from '../../platform/cli/output.ts'
import { openStore, type StoreSettings } from '../../platform/outgoing/store/open.ts'
import { parsePlace, type StorePlace } from '../../platform/outgoing/store/place.ts'
import { StoreFailed } from '../../platform/outgoing/store/store.ts'
import type { LogSealed, SealEvent } from '../audit/events.ts'
import { readPublicKey, readSeals } from '../audit/read-files.ts'
import { SealsFileRefused, trustedSeals } from '../audit/seals-file.ts'
import { accessProblem } from './settings.ts'
import { recordsAt } from './source.ts'
import { parseWitnessFile, witnessedSeals } from './witness-file.ts'

/** Seals that were kept elsewhere, and whose history they are of. */
export type KeptSeals = {
  readonly from: string
  /** Null where the id of the log is not kept with them. */
  readonly logId: string | null
  readonly firstEventId: string
  readonly seals: readonly LogSealed['data'][]
}

const told = (from: string, error: unknown): unknown => {
  if (error instanceof SealsFileRefused) return new CliMisuse(`${from}: ${error.message}`)
  return error instanceof StoreFailed
    ? new CliRefusal('seal_target_failed', `${from}: ${error.message}`)
    : error
}

const ofPlace = async (
  from: string,
  place: StorePlace,
  { access }: StoreSettings,
  clock: Clock,
  publicKey: string,
): Promise<KeptSeals> => {
  const problem = accessProblem(place, access)
  if (problem !== null) throw new CliMisuse(problem)
  const store = await openStore(place, access, clock)
  const seals: SealEvent[] = []
  let firstEventId: string | null = null
  try {
    for await (const record of recordsAt(store, 0)) {
      firstEventId ??= record.firstEventId
      if (record.firstEventId !== firstEventId)
        throw new SealsFileRefused('it holds the seals of several logs')
      seals.push(record.event)
    }
    if (firstEventId === null) throw new SealsFileRefused('it holds no seal')
    return { from, logId: null, firstEventId, seals: trustedSeals({ seals }, publicKey) }
  } catch (error) {
    throw told(from, error)
  } finally {
    await store.close()
  }
}

/** Those of a file that `ledger seals export` wrote, or of a place that seals are brought to. @throws CliMisuse */
export const exportedSeals = async (
  from: string,
  settings: StoreSettings,
  clock: Clock,
  publicKey: string,
): Promise<KeptSeals> => {
  const place = /^(?:file:|https?:|s3:)/.test(from) ? parsePlace(from) : null
  if (place !== null) return ofPlace(from, place, settings, clock, publicKey)
  const { file, seals } = await readSeals(from, publicKey)
  return { from, logId: file.logId, firstEventId: file.firstEventId, seals }
}

/**
 * Those that a witness co-signed.
 * @param keyPath the key that the witness must have signed with; left out: the file says which it was
 * @throws CliMisuse
 */
export const seenByWitness = async (
  path: string,
  keyPath: string | undefined,
  publicKey: string,
): Promise<KeptSeals> => {
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
    throw told(path, error)
  }
}

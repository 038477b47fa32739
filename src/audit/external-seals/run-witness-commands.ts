import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { text as textOf } from 'node:stream/consumers'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { pluralize } from '../../kernel/formats.ts'
import type { CliContext, CliSettings } from '../../platform/cli/cli-context.ts'
import { CliMisuse, type CliOutput, CliRefusal, fields } from '../../platform/cli/output.ts'
import { UnwritableFile, writeFileAtomically } from '../../platform/outgoing/file-sink.ts'
import {
  locationExpected,
  StoreFailed,
  type StoreLocation,
  storeLocationText,
} from '../../platform/outgoing/object-store.ts'
import { openStore } from '../../platform/outgoing/open-object-store.ts'
import { type SealKey, sealKeyOf } from '../seals/seal-key.ts'
import { readPublicKey, readSealKey, SealsFileRefused } from '../seals/seals-file.ts'
import { type CheckedSeals, checkExternalSeals, SealMismatchError } from './check-external-seals.ts'
import { assertKeepsFiles, DeliveryRefused, deliverSeals } from './deliver-seals.ts'
import { createDeliveryCursor } from './delivery-cursor.ts'
import { parseRecords, readRecords } from './external-seals.ts'
import { accessProblem } from './settings.ts'
import { cosigned, lastRun, parseWitnessFile, type WitnessFile, witnessFileText } from './witness-file.ts'

/** @param systemClock the clock for signing requests to a bucket, without FAREBOX_CLOCK_OFFSET_MS */
export const deliver =
  (systemClock: Clock) =>
  async (context: CliContext, { again }: { readonly again?: boolean }): Promise<CliOutput> => {
    const { pool, log, clock, config } = context
    const { location, access } = config.sealTarget
    if (location === null) throw new CliMisuse(`FAREBOX_SEAL_TARGET is not set: expected ${locationExpected}`)
    const target = storeLocationText(location)
    const cursor = createDeliveryCursor(pool, clock, { logId: await log.logId(), target })
    if (again) await cursor.forget()
    const store = await openStore(location, access, systemClock)
    try {
      await assertKeepsFiles(store, target)
      const count = await deliverSeals({ log, store, cursor, target })
      return {
        json: { target, delivered: count },
        text: count === 0 ? `${target} has every seal` : `brought ${pluralize(count, 'seal')} to ${target}`,
      }
    } catch (error) {
      if (!(error instanceof StoreFailed || error instanceof DeliveryRefused)) throw error
      await cursor.fail(error.message)
      const code = error instanceof StoreFailed ? 'seal_target_failed' : 'seal_target_differs'
      throw new CliRefusal(code, error instanceof StoreFailed ? `${target}: ${error.message}` : error.message)
    } finally {
      await store.close()
    }
  }

type Given = {
  readonly state: string
  readonly key: string
  readonly from?: StoreLocation | '-'
  readonly publicKey?: string
  readonly all?: boolean
  readonly maxAgeHours?: number
}

const fromExpected = `${locationExpected}, or - for standard input`

const isAbsent = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT'

/** The stored state; null when the file does not exist yet. @throws CliMisuse */
const readState = async (path: string): Promise<WitnessFile | null> => {
  try {
    return parseWitnessFile(await readFile(path, 'utf8'))
  } catch (error) {
    if (isAbsent(error)) return null
    throw new CliMisuse(`${path}: ${(error as Error).message}`)
  }
}

/** The witness's own key. The first run creates it. @throws CliMisuse */
const witnessKey = async (path: string, kept: WitnessFile | null): Promise<SealKey> => {
  const there = await readFile(path).then(
    () => true,
    (error) => !isAbsent(error),
  )
  if (!there && kept === null) await write(path, `${randomBytes(32).toString('base64')}\n`)
  const key = sealKeyOf(await readSealKey(path))
  if (kept !== null && kept.witness.publicKey !== key.publicKey)
    throw new CliMisuse(
      `${path} holds the key ${key.publicKey}, but ${kept.witness.publicKey} signed what this witness saw before`,
    )
  return key
}

const write = async (path: string, text: string): Promise<void> => {
  try {
    await writeFileAtomically(path, text)
  } catch (error) {
    throw error instanceof UnwritableFile ? new CliMisuse(error.message) : error
  }
}

/** The key that must have signed: an argument of the first run, pinned from then on. @throws CliMisuse */
const sealKeyFor = async ({ publicKey: path }: Given, kept: WitnessFile | null): Promise<string> => {
  if (path === undefined) {
    if (kept !== null) return kept.publicKey
    throw new CliMisuse(
      'the first look needs --public-key: the key that the service signs with, as "ledger seals public-key" prints it there',
    )
  }
  const given = await readPublicKey(path)
  if (kept !== null && kept.publicKey !== given)
    throw new CliMisuse(
      `${path} holds the key ${given}, but this witness pinned ${kept.publicKey}; it follows changes of the key by itself`,
    )
  return given
}

const checkStoredSeals = async (
  { sealTarget }: Pick<CliSettings, 'sealTarget'>,
  clock: Clock,
  given: Given,
  kept: WitnessFile | null,
  publicKey: string,
): Promise<CheckedSeals & { readonly from: string }> => {
  const from = given.from ?? sealTarget.location
  if (from === null)
    throw new CliMisuse(`--from is missing, and FAREBOX_SEAL_TARGET is not set: expected ${fromExpected}`)
  if (from === '-')
    return {
      ...(await checkExternalSeals(kept, parseRecords(await textOf(process.stdin)), publicKey)),
      from: 'standard input',
    }
  const problem = accessProblem(from, sealTarget.access)
  if (problem !== null) throw new CliMisuse(problem)
  const store = await openStore(from, sealTarget.access, clock)
  try {
    const first = kept === null ? 0 : given.all ? kept.since : Math.min(...lastRun(kept).keys())
    return {
      ...(await checkExternalSeals(kept, readRecords(store, first), publicKey)),
      from: storeLocationText(from),
    }
  } finally {
    await store.close()
  }
}

const hourMs = 3_600_000

const outputOf = (file: WitnessFile, { from, news }: { from: string; news: number }): CliOutput => {
  const last = file.records.findLast(({ event }) => event.type === 'LogSealed')?.event
  const seal = last?.type === 'LogSealed' ? last.data : null
  const { revision, witness } = file
  const json = {
    from,
    new: news,
    revision,
    throughOrdinal: seal?.throughOrdinal,
    digest: seal?.digest,
    sealedAt: seal?.sealedAt,
    publicKey: seal?.publicKey,
    witness,
  }
  const text = fields({
    from,
    'new seals': news,
    'newest seal': revision,
    'covers events': seal?.throughOrdinal ?? null,
    digest: seal?.digest ?? null,
    'sealed at': seal?.sealedAt ?? null,
    'signed by': seal?.publicKey ?? null,
    'witnessed at': witness.witnessedAt,
    'witnessed by': witness.publicKey,
  })
  return { json, text }
}

const refuseOld = (file: WitnessFile, output: CliOutput, hours: number | undefined, nowMs: number): void => {
  const times = file.records.map(({ event }) =>
    Date.parse(event.type === 'LogSealed' ? event.data.sealedAt : event.data.rotatedAt),
  )
  const newestMs = Math.max(...times)
  if (hours === undefined || nowMs - newestMs <= hours * hourMs) return
  throw new CliRefusal(
    'seals_stale',
    `the newest seal is of ${isoTime(newestMs)}, and --max-age-hours allows ${hours}: the service does not seal, or its seals do not come here\n${output.text}`,
    output.json as Record<string, unknown>,
  )
}

export const witness =
  (clock: Clock) =>
  async (settings: CliSettings, given: Given): Promise<CliOutput> => {
    const kept = await readState(given.state)
    const publicKey = await sealKeyFor(given, kept)
    const key = await witnessKey(given.key, kept)
    try {
      const { file, news, from } = await checkStoredSeals(settings, clock, given, kept, publicKey)
      const signed = cosigned(file, key, isoTime(clock()))
      await write(given.state, witnessFileText(signed))
      const output = outputOf(signed, { from, news })
      refuseOld(signed, output, given.maxAgeHours, clock())
      return output
    } catch (error) {
      if (error instanceof SealMismatchError) {
        const { code, message, pinned, seen } = error.mismatch
        throw new CliRefusal(code, `${message}. ${given.state} stays as it was`, { pinned, seen })
      }
      if (error instanceof SealsFileRefused)
        throw new CliRefusal('seals_not_genuine', `${error.message}. ${given.state} stays as it was`)
      if (error instanceof StoreFailed) throw new CliRefusal('seal_target_failed', error.message)
      throw error
    }
  }

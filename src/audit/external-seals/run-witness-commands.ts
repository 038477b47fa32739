import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { text as textOf } from 'node:stream/consumers'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { pluralize } from '../../kernel/formats.ts'
import type { BareContext, CliContext, CliSettings } from '../../platform/cli/cli-context.ts'
import type { InputOf } from '../../platform/cli/input.ts'
import { CliMisuse, type CliOutput, CliRefusal, fields } from '../../platform/cli/output.ts'
import { UnwritableFile, writeFileAtomically } from '../../platform/outgoing/file-sink.ts'
import { locationExpected, StoreFailed, storeLocationText } from '../../platform/outgoing/object-store.ts'
import { openStore } from '../../platform/outgoing/open-object-store.ts'
import type { witnessInput } from '../commands.ts'
import { readPublicKey, readSealKey, type SealKey, SealsFileRefused, sealKeyOf } from '../seals/seals-file.ts'
import { type CheckedSeals, checkExternalSeals, SealMismatchError } from './check-external-seals.ts'
import { assertKeepsFiles, createDeliveryCursor, DeliveryRefused, deliverSeals } from './deliver-seals.ts'
import {
  cosigned,
  lastRun,
  parseRecords,
  parseWitnessFile,
  readRecords,
  type WitnessFile,
  witnessFileText,
} from './external-seals.ts'
import { accessProblem } from './settings.ts'

/** @param systemClock the clock for signing requests to a bucket, without FAREBOX_CLOCK_OFFSET_MS */
export const deliver = async (
  context: CliContext,
  { again }: { readonly again?: boolean },
  systemClock: Clock,
): Promise<CliOutput> => {
  const { auditorPool, log, clock, config } = context
  const { location, access } = config.sealTarget
  if (location === null) throw new CliMisuse(`FAREBOX_SEAL_TARGET is not set: expected ${locationExpected}`)
  const target = storeLocationText(location)
  const cursor = createDeliveryCursor(auditorPool, clock, { logId: await log.logId(), target })
  if (again) await cursor.forget()
  const store = await openStore(location, access, systemClock)
  try {
    await assertKeepsFiles(store, target)
    const count = await deliverSeals({ log, store, cursor, target })
    return {
      json: { target, delivered: count },
      text: count === 0 ? `${target} has every seal` : `delivered ${pluralize(count, 'seal')} to ${target}`,
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

type WitnessInput = InputOf<typeof witnessInput>

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
const witnessKey = async (path: string, storedFile: WitnessFile | null): Promise<SealKey> => {
  const hasKeyFile = await readFile(path).then(
    () => true,
    (error) => !isAbsent(error),
  )
  if (!hasKeyFile && storedFile === null) await write(path, `${randomBytes(32).toString('base64')}\n`)
  const key = sealKeyOf(await readSealKey(path))
  if (storedFile !== null && storedFile.witness.publicKey !== key.publicKey)
    throw new CliMisuse(
      `${path} holds the key ${key.publicKey}, but ${storedFile.witness.publicKey} signed what this witness saw before`,
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
const sealKeyFor = async (
  { publicKey: path }: WitnessInput,
  storedFile: WitnessFile | null,
): Promise<string> => {
  if (path === undefined) {
    if (storedFile !== null) return storedFile.publicKey
    throw new CliMisuse(
      'the first run needs --public-key: the key that the service signs with, as "ledger seals public-key" prints it there',
    )
  }
  const givenKey = await readPublicKey(path)
  if (storedFile !== null && storedFile.publicKey !== givenKey)
    throw new CliMisuse(
      `${path} holds the key ${givenKey}, but this witness pinned ${storedFile.publicKey}; it follows changes of the key by itself`,
    )
  return givenKey
}

const checkStoredSeals = async (
  { sealTarget }: Pick<CliSettings, 'sealTarget'>,
  clock: Clock,
  input: WitnessInput,
  storedFile: WitnessFile | null,
  publicKey: string,
): Promise<CheckedSeals & { readonly from: string }> => {
  const from = input.from ?? sealTarget.location
  if (from === null)
    throw new CliMisuse(`--from is missing, and FAREBOX_SEAL_TARGET is not set: expected ${fromExpected}`)
  if (from === '-')
    return {
      ...(await checkExternalSeals(storedFile, parseRecords(await textOf(process.stdin)), publicKey)),
      from: 'standard input',
    }
  const problem = accessProblem(from, sealTarget.access)
  if (problem !== null) throw new CliMisuse(problem)
  const store = await openStore(from, sealTarget.access, clock)
  try {
    const firstRevision =
      storedFile === null ? 0 : input.all ? storedFile.since : Math.min(...lastRun(storedFile).keys())
    return {
      ...(await checkExternalSeals(storedFile, readRecords(store, firstRevision), publicKey)),
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

const refuseOld = (
  file: WitnessFile,
  output: CliOutput,
  maxHours: number | undefined,
  nowMs: number,
): void => {
  const times = file.records.map(({ event }) =>
    Date.parse(event.type === 'LogSealed' ? event.data.sealedAt : event.data.rotatedAt),
  )
  const newestMs = Math.max(...times)
  if (maxHours === undefined || nowMs - newestMs <= maxHours * hourMs) return
  throw new CliRefusal(
    'seals_stale',
    `the newest seal is of ${isoTime(newestMs)}, and --max-age-hours allows ${maxHours}: the service does not seal, or its seals are not delivered here\n${output.text}`,
    output.json as Record<string, unknown>,
  )
}

export const witness = async (
  { readSettings, clock }: BareContext,
  input: WitnessInput,
): Promise<CliOutput> => {
  const settings = await readSettings()
  const storedFile = await readState(input.state)
  const publicKey = await sealKeyFor(input, storedFile)
  const key = await witnessKey(input.key, storedFile)
  try {
    const { file, news, from } = await checkStoredSeals(settings, clock, input, storedFile, publicKey)
    const signedFile = cosigned(file, key, isoTime(clock()))
    await write(input.state, witnessFileText(signedFile))
    const output = outputOf(signedFile, { from, news })
    refuseOld(signedFile, output, input.maxAgeHours, clock())
    return output
  } catch (error) {
    if (error instanceof SealMismatchError) {
      const { code, message, pinned, seen } = error.mismatch
      throw new CliRefusal(code, `${message}. ${input.state} is unchanged`, { pinned, seen })
    }
    if (error instanceof SealsFileRefused)
      throw new CliRefusal('seals_not_genuine', `${error.message}. ${input.state} is unchanged`)
    if (error instanceof StoreFailed) throw new CliRefusal('seal_target_failed', error.message)
    throw error
  }
}

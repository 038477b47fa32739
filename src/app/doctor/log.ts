import { setTimeout as sleep } from 'node:timers/promises'
import { readCheckpoint } from '../../../projections/engine/checkpoint.ts'
import { listVerifications } from '../../books/audit/runs.ts'
import { sealKeyOf } from '../../books/audit/seal-key.ts'
import { readSeals } from '../../books/audit/sealing.ts'
import { lagText, readDeliveryLag } from '../../books/witness/delivery.ts'
import { counted } from '../../kernel/counted.ts'
import type { CliContext } from '../../platform/cli/cli.ts'
import { sealStream } from '../../terms/streams.ts'
import { aheadOfPostgres, skewProblem } from '../clock-guard.ts'
import type { Config } from '../config.ts'
import { groupsOf } from '../groups.ts'
import { type Finding, note, ok, wrong } from './finding.ts'

/** A command's context with all settings. */
export type Looked = CliContext & { readonly config: Config }

/** The clock of this machine, without a development offset, against Postgres's. */
export const lookAtClock = async ({ pool, clock, config }: Looked): Promise<Finding> => {
  const aheadMs = await aheadOfPostgres(pool, () => clock() - config.clockOffsetMs)
  const problem = skewProblem(aheadMs)
  return problem === null
    ? ok('clock', `within ${Math.abs(aheadMs)} ms of Postgres's`)
    : wrong('clock', problem, 'let both machines keep the time, e.g. by NTP')
}

export const lookAtHead = async ({ log, codec }: Looked): Promise<Finding> => {
  const head = await log.head()
  const last = head === 0 ? null : await log.eventAt(head)
  if (last === null) return note('log', 'it is empty')
  return ok('log', `its head is position ${head}, of ${codec.decode(last).metadata.recordedAt}`)
}

/** How long a server may take to fold what is there: far more than it needs. */
const patienceMs = 5_000

/** What the read models of a group have not folded. Beside a running server they get a moment to catch up. */
const lookAtGroup = async ({ pool, log }: Looked, group: string, serverRuns: boolean): Promise<Finding> => {
  const check = `read models (${group})`
  const head = await log.head()
  const endMs = performance.now() + (serverRuns ? patienceMs : 0)
  for (;;) {
    const checkpoint = await readCheckpoint(pool, group)
    const position = checkpoint?.position ?? 0
    if (checkpoint !== null && position >= head) return ok(check, 'they have folded the whole log')
    if (performance.now() >= endMs) {
      const found = `they stand at position ${position} of ${head}`
      return serverRuns
        ? wrong(check, found, 'read the log of the server: a group stops at an event that it cannot fold')
        : note(check, found, 'a server folds the rest when it starts')
    }
    await sleep(100)
  }
}

export const lookAtReadModels = (context: Looked, serverRuns: boolean): Promise<readonly Finding[]> =>
  Promise.all(groupsOf(context.config).map(({ name }) => lookAtGroup(context, name, serverRuns)))

/** A running server seals after its own delay; longer than this on top of it and it does not. */
const sealGraceMs = 60_000

export const lookAtSeals = async (context: Looked, serverRuns: boolean): Promise<Finding> => {
  const { runner, log, keys, codec, clock, config } = context
  const check = 'last seal'
  const { last, publicKey } = await readSeals(runner, context)
  if (publicKey !== null && publicKey !== sealKeyOf(keys.seal).publicKey)
    return wrong(check, 'another key signs this log', 'set FAREBOX_SEAL_KEY to the key that signed last')
  const found = last === null ? 'none yet' : `event ${last.throughOrdinal}, at ${last.sealedAt}`
  const place = await log.lastOf(sealStream)
  const oldest = (await log.readAll(place?.position ?? 0, 1))[0]
  if (oldest === undefined) return ok(check, `${found}; nothing came after it`)
  const waitsMs = clock() - Date.parse(codec.decode(oldest).metadata.recordedAt)
  const waits = `${found}; what came after it waits for ${counted(Math.max(0, Math.round(waitsMs / 1000)), 'second')}`
  if (waitsMs <= config.seal.seconds * 1000 + sealGraceMs) return ok(check, waits)
  return serverRuns
    ? wrong(check, waits, 'run "ledger verify": a server stops sealing a log that is not what was sealed')
    : note(check, waits, 'a running server seals by itself; "ledger seal" does it now')
}

/** Whether seals reach the place they go to. Orders never wait for it. */
export const lookAtSealTarget = async (context: Looked, serverRuns: boolean): Promise<Finding> => {
  const check = 'seal target'
  const { place } = context.config.sealTarget
  if (place === null)
    return note(check, 'none is set: seals stay in the log', 'set FAREBOX_SEAL_TARGET: docs/seals.md')
  const lag = await readDeliveryLag(context, place)
  if (lag.problem === null && lag.seals === 0) return ok(check, `${lag.target} has every seal`)
  const found = `${lag.target} is ${lagText(lag, context.clock())}`
  if (lag.problem !== null)
    return wrong(check, found, 'mend that; "ledger seals deliver" tries at once, a server goes on trying')
  const waitsMs = lag.since === null ? 0 : context.clock() - Date.parse(lag.since)
  if (waitsMs <= sealGraceMs) return ok(check, found)
  return serverRuns
    ? wrong(check, found, 'start the server with the same FAREBOX_SEAL_TARGET')
    : note(check, found, 'a running server brings them; "ledger seals deliver" does it now')
}

const dayMs = 86_400_000
const verifyAfterDays = 31

export const lookAtVerification = async ({ pool, clock }: Looked): Promise<Finding> => {
  const check = 'last verification'
  const last = (await listVerifications(pool, { limit: 1, offset: 0 })).verifications[0]
  if (last === undefined) return note(check, 'none was run', 'run "ledger verify"')
  const found = `${last.outcome}, started at ${last.startedAt}`
  if (last.outcome === 'differs')
    return wrong(check, found, 'run "ledger verify" again and see what differs: docs/operations.md')
  if (last.outcome === 'failed') return wrong(check, found, 'run "ledger verify" again')
  return clock() - Date.parse(last.startedAt) > verifyAfterDays * dayMs
    ? note(check, found, 'it is long ago: run "ledger verify"')
    : ok(check, found)
}

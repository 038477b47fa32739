import { access, constants } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createCheckedEvents } from '../../audit/checked-events.ts'
import { readGuardProblem, readUnsafeSettings } from '../../audit/checks/database-guards-check.ts'
import { assertKeepsFiles, lagText, readDeliveryLag } from '../../audit/external-seals/deliver-seals.ts'
import { lateMs, unsealedWait } from '../../audit/overdue-checks.ts'
import { sealKeyOf } from '../../audit/seals/seal-key.ts'
import { readSeals } from '../../audit/seals/sealing.ts'
import { listVerifications } from '../../audit/verification-runs.ts'
import { readOpenViolations, violationText } from '../../audit/violations.ts'
import { readFutureTime } from '../../features/finance/index.ts'
import { pluralize } from '../../kernel/formats.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { StoreFailed } from '../../platform/outgoing/object-store.ts'
import { openStore } from '../../platform/outgoing/open-object-store.ts'
import { type DataUser, readDataUser } from '../../platform/postgres/data-lock.ts'
import { readCheckpoint } from '../../platform/projections/checkpoint.ts'
import { keyNames } from '../../platform/vault/keys.ts'
import { countTooLate, delayText } from '../../platform/work/queue-operations.ts'
import { skewProblem } from '../clock-guard.ts'
import type { Config } from '../config.ts'
import { urlOf } from '../listen.ts'
import { enabledGroups } from '../projections.ts'
import { queues, readDelays } from '../queues.ts'

/** `note`: worth knowing, and nothing is wrong. */
export type State = 'ok' | 'note' | 'wrong'

/** What one look came to. */
export type Finding = {
  readonly check: string
  readonly state: State
  readonly found: string
  /** What to do; null when there is nothing to do. */
  readonly todo: string | null
}

export const ok = (check: string, found: string): Finding => ({ check, state: 'ok', found, todo: null })
export const note = (check: string, found: string, todo: string | null = null): Finding => ({
  check,
  state: 'note',
  found,
  todo,
})
export const wrong = (check: string, found: string, todo: string): Finding => ({
  check,
  state: 'wrong',
  found,
  todo,
})

/** A command's context with all settings. */
export type DoctorContext = CliContext & { readonly config: Config }

/** The clock of this machine, without a development offset, against Postgres's. */
export const checkClock = async ({ clockGuard }: DoctorContext): Promise<Finding> => {
  await clockGuard.check()
  const aheadMs = clockGuard.aheadMs()
  const problem = skewProblem(aheadMs)
  return problem === null
    ? ok('clock', `within ${Math.abs(aheadMs)} ms of Postgres's`)
    : wrong('clock', problem, 'let both machines keep the time, e.g. by NTP')
}

/** Events that were recorded while the clocks of server and Postgres were ahead. */
export const checkTime = async ({ pool, clock }: DoctorContext): Promise<Finding> => {
  const check = 'time of the log'
  const found = await readFutureTime(pool, clock())
  return found === null
    ? ok(check, 'no event is of the future')
    : note(check, found, 'see to it that the clocks keep the time: docs/operations.md says what follows')
}

export const checkHead = async ({ log, codec }: DoctorContext): Promise<Finding> => {
  const head = await log.head()
  const last = head === 0 ? null : await log.eventAt(head)
  if (last === null) return note('log', 'it is empty')
  return ok('log', `its head is position ${head}, of ${codec.decode(last).metadata.recordedAt}`)
}

/** How long a server may take to fold what is there: far more than it needs. */
const maxWaitMs = 5_000

/** What the read models of a group have not folded. Beside a running server they get a moment to catch up. */
const checkGroup = async (
  { pool, log }: DoctorContext,
  group: string,
  serverRuns: boolean,
): Promise<Finding> => {
  const check = `read models (${group})`
  const head = await log.head()
  const endMs = performance.now() + (serverRuns ? maxWaitMs : 0)
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

export const checkReadModels = (context: DoctorContext, serverRuns: boolean): Promise<readonly Finding[]> =>
  Promise.all(enabledGroups(context.config).map(({ name }) => checkGroup(context, name, serverRuns)))

export const checkSeals = async (context: DoctorContext, serverRuns: boolean): Promise<Finding> => {
  const { runner, keys, config } = context
  const check = 'last seal'
  const { last, publicKey } = await readSeals(runner, context)
  if (publicKey !== null && publicKey !== sealKeyOf(keys.seal).publicKey)
    return wrong(check, 'another key signs this log', 'set FAREBOX_SEAL_KEY to the key that signed last')
  const found = last === null ? 'none yet' : `event ${last.throughOrdinal}, at ${last.sealedAt}`
  const waitsMs = await unsealedWait(context)
  if (waitsMs === null) return ok(check, `${found}; nothing came after it`)
  const waits = `${found}; what came after it waits for ${pluralize(Math.max(0, Math.round(waitsMs / 1000)), 'second')}`
  if (waitsMs <= config.seal.seconds * 1000 + lateMs) return ok(check, waits)
  return serverRuns
    ? wrong(check, waits, 'run "ledger verify": a server stops sealing a log that is not what was sealed')
    : note(check, waits, 'a running server seals by itself; "ledger seal" does it now')
}

/** Whether seals reach the place they go to. Orders never wait for it. */
export const checkSealTarget = async (context: DoctorContext, serverRuns: boolean): Promise<Finding> => {
  const check = 'seal target'
  const { location } = context.config.sealTarget
  if (location === null)
    return note(check, 'none is set: seals stay in the log', 'set FAREBOX_SEAL_TARGET: docs/seals.md')
  const lag = await readDeliveryLag(context, location)
  const store = await openStore(
    location,
    context.config.sealTarget.access,
    () => context.clock() - context.config.clockOffsetMs,
  )
  try {
    await assertKeepsFiles(store, lag.target)
  } catch (error) {
    const problem =
      error instanceof StoreFailed ? `${lag.target}: ${error.message}` : (error as Error).message
    return wrong(check, problem, 'mend that; "ledger seals deliver" tries at once, a server goes on trying')
  } finally {
    await store.close()
  }
  if (lag.problem === null && lag.seals === 0) return ok(check, `${lag.target} has every seal`)
  const found = `${lag.target} is ${lagText(lag, context.clock())}`
  if (lag.problem !== null)
    return wrong(check, found, 'mend that; "ledger seals deliver" tries at once, a server goes on trying')
  const waitsMs = lag.since === null ? 0 : context.clock() - Date.parse(lag.since)
  if (waitsMs <= lateMs) return ok(check, found)
  return serverRuns
    ? wrong(check, found, 'start the server with the same FAREBOX_SEAL_TARGET')
    : note(check, found, 'a running server brings them; "ledger seals deliver" does it now')
}

/** Violations that nobody acknowledged, as the servers found them. */
export const checkViolations = async ({ pool, log, keys, config }: DoctorContext): Promise<Finding> => {
  const check = 'violations'
  if (!config.laws) return note(check, 'FAREBOX_LAWS is off: only "ledger verify" looks for them')
  const { rows } = await pool.query<{ made: boolean }>(
    `select to_regclass('read.violations') is not null and to_regclass('read.audit_decided') is not null as made`,
  )
  if (!rows[0]!.made) return note(check, 'not checked yet', 'a server checks when it starts')
  const open = await readOpenViolations(pool)
  const todo = 'look into them: "ledger breaches" lists them, "ledger decide" acknowledges them'
  if (open.first !== null)
    return wrong(check, `${open.count} open, the first: ${violationText(open.first)}`, todo)
  for await (const hidden of createCheckedEvents({ pool, log, master: keys.master }).open(log))
    return wrong(check, violationText(hidden), todo)
  return ok(check, 'none is open')
}

/** What could hide a violation. */
export const checkDatabaseGuards = async ({ pool }: DoctorContext): Promise<Finding> => {
  const check = 'guards'
  const problem = await readGuardProblem(pool)
  return problem === null
    ? ok(check, 'the database is as the migrations made it')
    : wrong(check, problem, 'find out who changed it, undo it, and run "ledger verify"')
}

/** Whether what was answered as written outlives a crash of the machine. */
export const checkDurability = async ({ pool }: DoctorContext): Promise<Finding> => {
  const check = 'durability'
  const off = await readUnsafeSettings(pool)
  return off.length === 0
    ? ok(check, 'what is answered as written is on disk')
    : wrong(
        check,
        `${off.join(' and ')} off: a crash of the machine loses or damages orders that were answered`,
        `set ${off.map((name) => `${name} = on`).join(' and ')} in postgresql.conf, and reload it with "select pg_reload_conf()"`,
      )
}

/** Queues whose items are late. */
export const checkQueues = async (
  { pool, clock }: DoctorContext,
  serverRuns: boolean,
): Promise<readonly Finding[]> => {
  const delays = await readDelays(pool)
  const late = delays.flatMap((delay) => delayText(delay) ?? [])
  const failing = delays.filter(({ failing }) => failing > 0)
  const found = late.map((text) =>
    serverRuns
      ? wrong(
          'queues',
          text,
          'read the log of the server: "farebox workers" has the last error of each worker',
        )
      : note('queues', text, 'a running server works them off'),
  )
  const notes = failing.map(({ queue, failing }) =>
    note(
      'queues',
      `${queue}: ${pluralize(failing, 'item')} with three attempts or more, of which the last failed`,
    ),
  )
  for (const queue of queues) {
    const items = await countTooLate(pool, queue, clock())
    if (items === 0) continue
    const text = `${queue.name}: ${pluralize(items, 'item')} due later than the queue ever waits, after a wrong clock`
    found.push(wrong('queues', text, 'a running server makes them due within a minute'))
  }
  return found.length + notes.length === 0 ? [ok('queues', 'nothing is late')] : [...found, ...notes]
}

const dayMs = 86_400_000
const verifyAfterDays = 31

export const checkVerification = async ({ pool, clock }: DoctorContext): Promise<Finding> => {
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

const may = (path: string, mode: number): Promise<boolean> =>
  access(path, mode).then(
    () => true,
    () => false,
  )

/** The directory of the embedded Postgres and of the generated keys. */
export const checkData = async ({ dataDir, databaseUrl, masterKey, sealKey }: Config): Promise<Finding> => {
  const check = 'data directory'
  if (databaseUrl !== null) return ok(check, `${dataDir}; the database is the one of DATABASE_URL`)
  if (!(await may(join(dataDir, 'postgres'), constants.F_OK)))
    return wrong(
      check,
      `${dataDir} holds no Farebox`,
      'set FAREBOX_DATA to the directory that holds yours, or make a new one with npm start',
    )
  if (!(await may(dataDir, constants.R_OK | constants.W_OK)))
    return wrong(check, `this user may not read and write ${dataDir}`, 'run it as the user of the server')
  const given = { master: masterKey, seal: sealKey }
  for (const name of keyNames) {
    const path = join(dataDir, `${name}.key`)
    if (given[name] === null && !(await may(path, constants.R_OK)))
      return wrong(
        check,
        `${path} is missing or cannot be read`,
        `put it back from a backup, or set FAREBOX_${name.toUpperCase()}_KEY`,
      )
  }
  return ok(check, dataDir)
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** The server that has the data locked; null when none has, and where the database is not the embedded one. */
export const serverOf = async ({ dataDir, databaseUrl }: Config): Promise<DataUser | null> => {
  if (databaseUrl !== null) return null
  const user = await readDataUser(dataDir).catch(() => null)
  return user?.role === 'server' && isAlive(user.pid) ? user : null
}

/** What `/readyz` at this address says; null when nothing answers. */
const readiness = async (
  url: string,
  token: string | null,
): Promise<{ readonly status: number; readonly body: string } | null> => {
  // `/readyz` says what is missing only with the token.
  const headers = token === null ? {} : { authorization: `Bearer ${token}` }
  try {
    const answer = await fetch(`${url}/readyz`, { headers, signal: AbortSignal.timeout(5_000) })
    return { status: answer.status, body: await answer.text() }
  } catch {
    return null
  }
}

const reason = (body: string): string => {
  try {
    const { checks, error } = JSON.parse(body) as { checks?: Record<string, string>; error?: string }
    const failing = Object.entries(checks ?? {}).filter(([, state]) => state !== 'ok')
    return failing.length > 0
      ? failing.map(([name, state]) => `${name}: ${state}`).join('; ')
      : (error ?? body)
  } catch {
    return 'it is no Farebox'
  }
}

/** Whether a server runs, and where. */
export const checkServer = async (config: Config): Promise<Finding> => {
  const check = 'server'
  const user = await serverOf(config)
  const process = user === null ? '' : ` (process ${user.pid})`
  if (config.port === 0)
    return user === null
      ? note(check, 'none uses the data; with PORT=0 it could listen anywhere')
      : ok(check, `process ${user.pid} runs, on a port that the system chose (PORT=0)`)
  const url = urlOf(config)
  const answer = await readiness(url, config.metricsToken)
  if (answer === null)
    return user === null
      ? note(check, `none answers on ${url}`, 'start one with npm start')
      : wrong(
          check,
          `process ${user.pid} uses the data, and nothing answers on ${url}`,
          'wait for its start to end, read its log, or set HOST and PORT to those that it was started with',
        )
  if (config.databaseUrl === null && user === null)
    return wrong(
      check,
      `something answers on ${url}, and it does not use the data of this FAREBOX_DATA`,
      'set FAREBOX_DATA, or PORT, to those of the server that is meant',
    )
  return answer.status === 200
    ? ok(check, `ready on ${url}${process}`)
    : wrong(check, `not ready on ${url}${process}: ${reason(answer.body)}`, 'read its log')
}

/** Where scrapers are fetched from, by the settings; nobody is asked. */
export const checkScrapers = ({ scrapers, payments }: Config): Finding => {
  const check = 'scrapers'
  const hosts = scrapers.providers.map(({ baseUrl }) => new URL(baseUrl).host)
  if (hosts.length > 0) return ok(check, `fetched from ${hosts.join(', then from ')}`)
  if (payments.sandbox !== null) return note(check, 'the sandbox answers them, with invented data')
  return note(check, 'no provider is configured: every call is answered 503', 'set FAREBOX_SCRAPERS_KEY')
}

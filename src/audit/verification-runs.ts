import type pg from 'pg'
import { groups } from '../../projections/groups.ts'
import { createCustomerIds } from '../features/accounts/index.ts'
import { type Clock, isoTime } from '../kernel/clock.ts'
import { type Actor, actorText } from '../kernel/event.ts'
import { newId } from '../kernel/ids.ts'
import { positionToken } from '../kernel/log-position.ts'
import { isConnectionLost } from '../platform/postgres/errors.ts'
import { inTransaction } from '../platform/postgres/transaction.ts'
import type { ReadModelGroup } from '../platform/projections/read-model.ts'
import type { MasterKey } from '../platform/vault/keys.ts'
import type { VerifyDependencies, VerifyOptions, VerifyResult } from './checks/checks.ts'
import { examinedLog } from './checks/examined-log.ts'
import { type Finding, findingJson } from './checks/finding.ts'
import { linkRun, lockChain } from './checks/record-checks.ts'
import { type GroupSummary, scratchSchema } from './checks/rederive.ts'
import type { SealSummary } from './checks/seal-check.ts'
import type { AcknowledgedEvents } from './checks/sequence-check.ts'
import { invariantGroup } from './invariants/invariants.ts'
import { verifyLog } from './verify.ts'

/** `failed`: the run ended without a verdict, because of an error or because its process ended. */
export type VerificationOutcome = 'running' | 'clean' | 'differs' | 'failed'

/** A stored verification of the log. Times are ISO 8601 UTC. */
export type Verification = {
  readonly runId: string
  readonly logId: string
  /** E.g. `operator:alice`. */
  readonly actor: string
  readonly startedAt: string
  readonly finishedAt: string | null
  readonly outcome: VerificationOutcome
  /** Null while the run is active and after it failed. */
  readonly result: VerificationResult | null
}

export type VerificationResult = {
  readonly position: number
  readonly events: number
  readonly streams: number
  readonly seals: SealSummary
  readonly groups: readonly GroupSummary[]
  /** Absent in older runs. */
  readonly acknowledged?: AcknowledgedEvents
  readonly findingCount: number
  /** The first findings. */
  readonly findings: readonly Finding[]
}

/** The external form of a result: positions are tokens. */
export const resultJson = <Result extends VerificationResult>(result: Result) => ({
  ...result,
  position: positionToken(result.position),
  groups: result.groups.map((group) => ({ ...group, position: positionToken(group.position) })),
  findings: result.findings.map(findingJson),
  ...(result.acknowledged && {
    acknowledged: {
      ...result.acknowledged,
      first: result.acknowledged.first.map(({ event, ...acknowledgement }) => ({
        ...acknowledgement,
        event: { ...event, position: positionToken(event.position) },
      })),
    },
  }),
})

/** The number of findings that are stored of each run. */
const maxStoredFindings = 20

type Row = {
  run_id: string
  log_id: string
  actor: string
  started_at: string
  finished_at: string | null
  outcome: VerificationOutcome
  result: VerificationResult | null
}

const toVerification = (row: Row): Verification => ({
  runId: row.run_id,
  logId: row.log_id,
  actor: row.actor,
  startedAt: row.started_at,
  finishedAt: row.finished_at,
  outcome: row.outcome,
  result: row.result,
})

const columns = 'run_id, log_id, actor, started_at, finished_at, outcome, result'

/** Verifications, newest first, and their total number. */
export const listVerifications = async (
  pool: pg.Pool,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ readonly verifications: readonly Verification[]; readonly total: number }> => {
  const { rows } = await pool.query<Row>(
    `select ${columns} from work.verifications order by started_at desc, run_id desc
      limit $1::bigint offset $2::bigint`,
    [limit, offset],
  )
  const totalResult = await pool.query<{ total: number }>('select count(*) as total from work.verifications')
  return { verifications: rows.map(toVerification), total: totalResult.rows[0]?.total ?? 0 }
}

/** Up to `limit` verifications after another one, newest first; null: from the newest on. */
export const verificationsAfter = async (
  pool: pg.Pool,
  {
    after,
    limit,
  }: { readonly after: { readonly at: string; readonly id: string } | null; readonly limit: number },
): Promise<readonly Verification[]> => {
  const { rows } = await pool.query<Row>(
    `select ${columns} from work.verifications
      where $1::timestamptz is null or (started_at, run_id) < ($1::timestamptz, $2::text)
      order by started_at desc, run_id desc limit $3::bigint`,
    [after?.at ?? null, after?.id ?? null, limit],
  )
  return rows.map(toVerification)
}

export const findVerification = async (pool: pg.Pool, runId: string): Promise<Verification | null> => {
  const { rows } = await pool.query<Row>(
    `select ${columns} from work.verifications where run_id = $1::text`,
    [runId],
  )
  return rows[0] ? toVerification(rows[0]) : null
}

type RunStart = {
  readonly runId: string
  readonly logId: string
  readonly actor: Actor
  readonly startedAt: string
}

/** Records the start of a run. Runs whose process has ended are recorded as failed. */
const recordStart = async (pool: pg.Pool, { runId, logId, actor, startedAt }: RunStart): Promise<void> => {
  const { rows } = await pool.query<{ run_id: string }>(
    `select run_id from work.verifications where outcome = 'running'`,
  )
  // An active run has the lock of its scratch schema.
  for (const { run_id } of rows)
    await pool.query(
      `update work.verifications set outcome = 'failed' where run_id = $1::text and not exists (
         select from pg_locks l where l.locktype = 'advisory' and l.objsubid = 1
           and (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('farebox ' || $2::text, 0))`,
      [run_id, scratchSchema(run_id)],
    )
  await pool.query(
    `insert into work.verifications (run_id, log_id, actor, started_at, outcome)
     values ($1::text, $2::text, $3::text, $4::timestamptz, 'running')`,
    [runId, logId, actorText(actor), startedAt],
  )
}

const outcomeOf = (result: VerifyResult | null): VerificationOutcome =>
  result === null ? 'failed' : result.findingCount === 0 ? 'clean' : 'differs'

const toStored = (result: VerifyResult): VerificationResult => ({
  position: result.position,
  events: result.events,
  streams: result.streams,
  seals: result.seals,
  groups: result.groups,
  acknowledged: { ...result.acknowledged, first: result.acknowledged.first.slice(0, maxStoredFindings) },
  findingCount: result.findingCount,
  findings: result.findings.slice(0, maxStoredFindings),
})

/**
 * Records the end of a run and links it to the chain.
 * @param result null when the run ended without a verdict
 * @throws Error when the row of the run is missing or cannot be written
 */
const recordEnd = async (
  pool: pg.Pool,
  runId: string,
  finishedAt: string,
  result: VerifyResult | null,
): Promise<Verification> => {
  const stored = result && toStored(result)
  return inTransaction(pool, async (client) => {
    await lockChain(client)
    const { rows } = await client.query<Row>(
      `update work.verifications set finished_at = $2::timestamptz, outcome = $3::text, result = $4::jsonb
        where run_id = $1::text and link is null returning ${columns}`,
      [runId, finishedAt, outcomeOf(result), stored === null ? null : JSON.stringify(stored)],
    )
    const [row] = rows
    if (row === undefined) throw new Error(`work.verifications has no row of the run ${runId}`)
    await linkRun(client, runId)
    return toVerification(row)
  })
}

type VerificationDependencies = VerifyDependencies & {
  readonly clock: Clock
  /** The master key, for the check of the resellers' own ids of customers. */
  readonly master: MasterKey
}

type VerificationRequest = Pick<
  VerifyOptions,
  'publicKey' | 'exported' | 'onProgress' | 'onWait' | 'signal'
> & {
  readonly runId: string
  readonly actor: Actor
}

/** The groups of read models that a verification compares. The auditor has tables of its own if it checks invariants. */
export const verifiedGroups = (checksInvariants: boolean): readonly ReadModelGroup[] =>
  checksInvariants ? [...groups, invariantGroup] : groups

export const newRunId = (): string => newId<string>('vrf')

/**
 * The problem of a run that cannot be recorded because the table was changed or is locked. @throws the error of a lost
 * connection
 */
const recordProblem = (error: unknown): string => {
  if (isConnectionLost(error)) throw error
  return `the run is not recorded in work.verifications: ${(error as Error).message}`
}

const withProblem = (result: VerifyResult, problem: string): VerifyResult => ({
  ...result,
  findings: [...result.findings, { where: 'log', check: 'verifications', problem }],
  findingCount: result.findingCount + 1,
})

/**
 * Verifies the log and records the run from its start. A run that throws is recorded without a verdict. A run that
 * cannot be recorded has a finding about that.
 */
export const runVerification = async (
  { clock, master, ...given }: VerificationDependencies,
  { actor, ...request }: VerificationRequest,
): Promise<{ readonly run: Verification; readonly result: VerifyResult }> => {
  const { pool, logInPostgres } = given
  const log = logInPostgres ? examinedLog(given.log, pool) : given.log
  const dependencies = { ...given, log }
  const { runId } = request
  const runStart = { runId, logId: await log.logId(), actor, startedAt: isoTime(clock()) }
  let startProblem: string | null = null
  let result: VerifyResult
  try {
    result = await verifyLog(dependencies, {
      ...request,
      // A row from before the lock would show its name to sessions that can take it.
      onLocked: async () => {
        startProblem = await recordStart(pool, runStart).then(() => null, recordProblem)
      },
      customerIdOf: createCustomerIds(master),
      keys: { master },
      clock,
    })
  } catch (error) {
    await recordEnd(pool, runId, isoTime(clock()), null).catch(() => undefined) // the first error is reported
    throw error
  }
  const finishedAt = isoTime(clock())
  const storedRun = await recordEnd(pool, runId, finishedAt, result).catch(recordProblem)
  if (typeof storedRun !== 'string') return { run: storedRun, result }
  result = withProblem(result, startProblem ?? storedRun)
  const run: Verification = {
    ...runStart,
    actor: actorText(actor),
    finishedAt,
    outcome: outcomeOf(result),
    result: toStored(result),
  }
  return { run, result }
}

import { setTimeout } from 'node:timers/promises'
import type pg from 'pg'
import type { Clock } from '../kernel/clock.ts'
import { pluralize } from '../kernel/formats.ts'
import { positionToken } from '../kernel/log-position.ts'
import type { CliContext } from '../platform/cli/cli-context.ts'
import type { InputOf } from '../platform/cli/input.ts'
import { CliMisuse, type CliOutput, CliRefusal, fields, table } from '../platform/cli/output.ts'
import { stepsOf, withProgress } from '../platform/cli/progress-bar.ts'
import { isLocked } from '../platform/postgres/locks.ts'
import { workerSession } from '../platform/work/queue-table.ts'
import { checks, type VerifyOptions, type VerifyResult } from './checks/checks.ts'
import { examinedLog } from './checks/examined-log.ts'
import { findingText } from './checks/finding.ts'
import { checkRuns, trafficTable } from './checks/record-checks.ts'
import { acknowledgedText } from './checks/sequence-check.ts'
import { vaultTables } from './checks/vault-check.ts'
import type { verifyInput } from './commands.ts'
import { type ExternalSeals, readExportedSeals, readWitnessedSeals } from './external-seals/external-seals.ts'
import { sealerLock } from './seals/sealing.ts'
import { readPublicKey, sealKeyOf } from './seals/seals-file.ts'
import {
  listVerifications,
  newRunId,
  resultJson,
  runVerification,
  verifiedGroups,
} from './verification-runs.ts'

/** Tables that a verification does not check, by schema, sorted by name. */
type UnverifiedTables = Readonly<Record<'engine' | 'vault' | 'work', readonly string[]>>

/** The tables of these schemas that are compared with the log. All others are not. */
const checkedTables: readonly string[] = [
  'work.event_digests',
  'work.verifications',
  trafficTable,
  ...vaultTables,
]

/** Reads the unverified tables of this database. Tables of later migrations are included without a change here. */
const readUnverifiedTables = async (pool: pg.Pool): Promise<UnverifiedTables> => {
  const { rows } = await pool.query<{ schema: keyof UnverifiedTables; name: string }>(
    `select n.nspname as schema, c.relname as name
       from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname in ('engine', 'vault', 'work') and c.relkind in ('r', 'p') and not c.relispartition
        and n.nspname || '.' || c.relname <> all ($1::text[])
      order by c.relname collate "C"`,
    [checkedTables],
  )
  const tablesOf = (schema: keyof UnverifiedTables): readonly string[] =>
    rows.filter((row) => row.schema === schema).map(({ name }) => name)
  return { engine: tablesOf('engine'), vault: tablesOf('vault'), work: tablesOf('work') }
}

/** The checks of a verification, and what each of them proves. */
export const listChecks = async (): Promise<CliOutput> => {
  const list = checks.map(({ name, proves }) => ({ name, proves }))
  return { json: { checks: list }, text: table(list, { check: 'name', proves: 'proves' }) }
}

const maxShownFindings = 20

const signaturesText = ({ signatures }: VerifyResult): string => {
  if (signatures === null) return 'no event: EventStoreDB keeps no signatures'
  const { signed, batches, keys, unsigned } = signatures
  const signedText = `${pluralize(signed, 'event')} in ${pluralize(batches, 'batch', 'batches')}, by ${pluralize(keys, 'key')}`
  return unsigned === 0 ? signedText : `${signedText}; ${unsigned} of times without signing`
}

const resultText = ({ result }: { readonly result: VerifyResult }): string => {
  const { seals, groups: groupSummaries } = result
  const rows = groupSummaries.reduce((sum, group) => sum + group.rows, 0)
  return fields({
    events: result.events,
    position: positionToken(result.position),
    streams: result.streams,
    'sealed up to':
      seals.sealedThrough === 0 ? null : `event ${seals.sealedThrough}, by ${pluralize(seals.seals, 'seal')}`,
    'exported seals': seals.exported,
    'not sealed yet': seals.unsealed,
    'sealed by a process that had not checked them':
      seals.uncheckedAtSealing === undefined || seals.uncheckedAtSealing === 0
        ? null
        : `${pluralize(seals.uncheckedAtSealing, 'event')}; this verification has`,
    'signed by processes': signaturesText(result),
    vault: result.vault
      .map(
        ({ table, checked, adopted, uncommitted, erased }) =>
          `${table}: ${pluralize(checked, 'row')} as committed to${adopted === 0 ? '' : ` (${adopted} since an upgrade only)`}, ${uncommitted} of before there were commitments and not checked, ${erased} erased`,
      )
      .join('; '),
    'unlogged traffic':
      result.unloggedTraffic.plans === 0
        ? null
        : `${result.unloggedTraffic.bytes} bytes of ${pluralize(result.unloggedTraffic.plans, 'plan')}, counted and not in the log yet`,
    'runs before': `${result.runs.links} chained`,
    'read tables': groupSummaries
      .map(
        ({ group, tables, position }) => `${group}: ${tables} tables at position ${positionToken(position)}`,
      )
      .join('; '),
    'rows compared': rows,
    digest: seals.digest,
    'signed by': seals.publicKey,
  })
}

/** The acknowledged events, each with the operator, the time and the reason. */
const acknowledgedLines = ({ acknowledged: { count, first } }: VerifyResult): string => {
  if (count === 0) return ''
  const lines = first
    .slice(0, maxShownFindings)
    .map((acknowledgedEvent) => `  ${acknowledgedText(acknowledgedEvent)}`)
  const more = count - lines.length
  return [`acknowledged: ${pluralize(count, 'event')}`, ...lines, ...(more > 0 ? [`  and ${more} more`] : [])]
    .map((line) => `${line}\n`)
    .join('')
}

const outsideText = (unverifiedTables: UnverifiedTables): string =>
  [
    ...Object.entries(unverifiedTables).map(
      ([schema, tables]) => `not checked, ${schema}: ${tables.join(', ')}`,
    ),
    'checked only by digests, seals and signatures, not by invariants: the fields of docs/finance/audit-coverage.md',
  ].join('\n')

const differenceText = ({ findings, findingCount }: VerifyResult): string => {
  const lines = findings.slice(0, maxShownFindings).map((finding) => `DIFFERENT ${findingText(finding)}`)
  const more = findingCount - lines.length
  return [...lines, ...(more > 0 ? [`and ${more} more`] : [])].join('\n')
}

/** Seals of another log are a wrong argument, not a difference. @throws CliMisuse */
const refuseOtherLog = async (
  { log: stored, pool, config }: CliContext,
  externalSeals: ExternalSeals,
): Promise<void> => {
  const log = config.eventStoreUrl === null ? examinedLog(stored, pool) : stored
  const [first] = await log.readAll(0, 1)
  if (externalSeals.logId !== (await log.logId()) && externalSeals.firstEventId !== first?.id)
    throw new CliMisuse(
      `${externalSeals.from} holds the seals of ${externalSeals.logId === null ? 'a log' : `the log ${externalSeals.logId}`}, which begins with event ${externalSeals.firstEventId}; this is the log ${await log.logId()} and begins with ${first?.id ?? 'no event'}`,
    )
}

const optionsOf = async (
  context: CliContext,
  systemClock: Clock,
  input: InputOf<typeof verifyInput>,
): Promise<Pick<VerifyOptions, 'publicKey' | 'exported'>> => {
  const publicKey =
    input.publicKey === undefined
      ? sealKeyOf(context.keys.seal).publicKey
      : await readPublicKey(input.publicKey)
  const { config } = context
  const sealSources: ExternalSeals[] = []
  if (input.seals !== undefined)
    sealSources.push(await readExportedSeals(input.seals, config.sealTarget, systemClock, publicKey))
  if (input.witness !== undefined)
    sealSources.push(await readWitnessedSeals(input.witness, input.witnessKey, publicKey))
  else if (input.witnessKey !== undefined) throw new CliMisuse('--witness-key is for --witness')
  if (sealSources.length === 0) return { publicKey, exported: null }
  for (const sealSource of sealSources) await refuseOtherLog(context, sealSource)
  const exported = sealSources
    .flatMap(({ seals }) => seals)
    .sort((a, b) => a.throughOrdinal - b.throughOrdinal)
  return { publicKey, exported }
}

/** Whether another process has a connection of this name to the database. */
const isConnected = async (pool: pg.Pool, applicationName: string): Promise<boolean> => {
  const { rowCount } = await pool.query(
    'select from pg_stat_activity where datname = current_database() and application_name = $1::text limit 1',
    [applicationName],
  )
  return rowCount === 1
}

/** Whether an auditor is running. One whose sealer waits after a failure has no lock. */
const isAuditorRunning = async (pool: pg.Pool): Promise<boolean> =>
  (await isLocked(pool, sealerLock)) || isConnected(pool, 'farebox-auditor')

/** Whether an auditor is running, or starts within 10 seconds beside a server that is running. */
const hasAuditor = async (pool: pg.Pool): Promise<boolean> => {
  const deadline = performance.now() + 10_000
  for (;;) {
    if (await isAuditorRunning(pool)) return true
    if (performance.now() > deadline || !(await isConnected(pool, workerSession))) return false
    await setTimeout(250)
  }
}

/** Verifies the whole log. @throws CliRefusal `log_differs`, `log_unsealed` */
export const verify = async (
  context: CliContext,
  input: InputOf<typeof verifyInput>,
  systemClock: Clock,
): Promise<CliOutput> => {
  const { pool, log, clock, actor, config } = context
  const options = await optionsOf(context, systemClock, input)
  const wasRunning = await isAuditorRunning(pool)
  const { run, result } = await withProgress((bar) => {
    let reportSteps: ReturnType<typeof stepsOf> | null = null
    let currentPhase = ''
    return runVerification(
      {
        pool,
        auditorPool: context.auditorPool,
        log,
        groups: verifiedGroups(config.checkInvariants),
        logInPostgres: config.eventStoreUrl === null,
        clock,
        master: context.keys.master,
      },
      {
        runId: newRunId(),
        actor,
        ...options,
        onWait: (text) => void process.stderr.write(`${text}\n`),
        onProgress: ({ phase, done, total, count }) => {
          const unit = phase === 'projections' ? 'tables' : 'events'
          if (reportSteps === null || phase !== currentPhase)
            reportSteps = stepsOf(bar, `verify: ${phase}`, total, unit)
          currentPhase = phase
          reportSteps(done, count)
        },
      },
    )
  })
  const unverifiedTables = await readUnverifiedTables(pool)
  const isUnsealed = input.maxUnsealed === undefined && result.seals.unsealed > 0
  const isRunning = wasRunning || (await (isUnsealed ? hasAuditor(pool) : isAuditorRunning(pool)))
  const maxUnsealed = input.maxUnsealed ?? (isRunning ? null : 0)
  const json = {
    ...run,
    result: resultJson(result),
    outside: unverifiedTables,
    running: isRunning,
    maxUnsealed,
  }
  const summary = `${acknowledgedLines(result)}${resultText({ result })}\n${outsideText(unverifiedTables)}`
  if (result.findingCount > 0)
    throw new CliRefusal('log_differs', `${differenceText(result)}\n${summary}`, json)
  const { unsealed } = result.seals
  if (maxUnsealed !== null && unsealed > maxUnsealed) {
    const reason =
      input.maxUnsealed === undefined
        ? 'no auditor is running that would seal them'
        : `--max-unsealed allows ${maxUnsealed}`
    throw new CliRefusal(
      'log_unsealed',
      `${pluralize(unsealed, 'event')} not sealed yet, and ${reason}: no seal proves them. Run "ledger seal" and verify again\n${summary}`,
      json,
    )
  }
  return { json, text: `${summary}\nnothing is wrong` }
}

/** The verifications that were run, newest first. @throws CliRefusal when their chain is broken */
export const verifications = async (
  { pool }: CliContext,
  { limit }: { readonly limit: number },
): Promise<CliOutput> => {
  const { verifications: runs, total } = await listVerifications(pool, { limit, offset: 0 })
  const text = table(
    runs,
    {
      started: 'startedAt',
      outcome: 'outcome',
      events: ({ result }) => result?.events,
      'sealed up to': ({ result }) => result?.seals.sealedThrough,
      differences: ({ result }) => result?.findingCount,
      by: 'actor',
      run: 'runId',
    },
    'none was run yet; "ledger verify" runs one',
  )
  const verificationsJson = runs.map((run) => ({ ...run, result: run.result && resultJson(run.result) }))
  const chain = await checkRuns(pool)
  const json = { verifications: verificationsJson, total, chain }
  if (chain.findings.length > 0)
    throw new CliRefusal('verifications_differ', `${chain.findings.join('\n')}\n${text}`, json)
  const chainText = `${pluralize(chain.links, 'run')} chained, digest ${chain.digest}`
  return { json, text: chain.digest === null ? text : `${text}\n${chainText}` }
}

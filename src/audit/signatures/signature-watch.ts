import type pg from 'pg'
import type { Logger } from 'pino'
import { newId } from '../../kernel/ids.ts'
import { parseUntrustedObject } from '../../kernel/json-text.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'
import { inTransaction } from '../../platform/postgres/transaction.ts'
import type { LogFeed } from '../../platform/projections/feed.ts'
import type { RunningWorker, Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import type { CheckedEvents, Found } from '../checked-events.ts'
import { accountOf } from '../invariants/invariant.ts'
import { readSeals } from '../seals/sealing.ts'
import { signatureRule } from '../violations.ts'
import type { VerifySignature } from './check-signatures.ts'
import { type CheckedLog, readSignaturesBefore, type SignaturePlace, startCheck } from './unsealed-check.ts'

/** A position with the id of its event. A log that was restored to an earlier point has another event there. */
type CheckedPosition = SignaturePlace & { readonly eventId: string }

/** A check that continues where the last check of this log stopped, in any process, and stores its findings. */
type ResumableSignatureCheck = {
  /** The position after which `take` expects events. */
  next(): number
  take(events: readonly StoredEvent[]): Promise<void>
}

type UnsignedRow = readonly [
  position: number,
  eventId: string,
  type: string,
  stream: string,
  accountId: string | null,
  problem: string,
]

const rowOf = (event: StoredEvent, problem: string): UnsignedRow => {
  const { position, id, type, stream, data } = event
  return [position, id, type, stream, accountOf({ stream, data: parseUntrustedObject(data) }), problem]
}

/**
 * The position up to which the log was checked, from the table. Nothing before the first signature is checked, so the
 * check of an older log starts there.
 */
export const readSignaturesChecked = async (pool: Pick<pg.Pool, 'query'>, logId: string): Promise<number> => {
  const { rows } = await pool.query<{ position: number }>(
    `select coalesce(c.position, (select min(first_position) - 1 from log.signatures), h.last_position) as position
       from log.head h left join (
         select c.* from work.signatures_checked c join log.events e on e.position = c.position and e.id = c.event_id
         ) c on c.log_id = $1::text`,
    [logId],
  )
  return rows[0]!.position
}

const storeFindings = (
  pool: pg.Pool,
  logId: string,
  { position, eventId, signing }: CheckedPosition,
  unsigned: readonly UnsignedRow[],
): Promise<void> =>
  inTransaction(pool, async (client) => {
    for (const row of unsigned)
      await client.query(
        `insert into work.unsigned_events (position, event_id, event_type, stream, account_id, problem)
         values ($1::bigint, $2::uuid, $3::text, $4::text, $5::text, $6::text) on conflict do nothing`,
        [...row],
      )
    await client.query(
      `insert into work.signatures_checked (log_id, position, event_id, signing)
       values ($1::text, $2::bigint, $3::uuid, $4::boolean)
       on conflict (log_id) do update
         set position = excluded.position, event_id = excluded.event_id, signing = excluded.signing
         where signatures_checked.position < excluded.position
            or not exists (select from log.events e
                where e.position = signatures_checked.position and e.id = signatures_checked.event_id)`,
      [logId, position, eventId, signing],
    )
  })

/** Removes findings about events that the log no longer has, because it was restored to an earlier point. */
const forgetGoneSql = `
  delete from work.unsigned_events u
   where not exists (select from log.events e where e.position = u.position and e.id = u.event_id)`

/**
 * @param from the start when the stored checkpoint is later: unsealed events are always checked again, whatever the
 * table contains
 * @param onFound called for each event without a valid signature
 */
const openSignatureCheck = async (
  options: CheckedLog & {
    readonly from?: number
    readonly onFound?: (event: StoredEvent) => void
  },
): Promise<ResumableSignatureCheck> => {
  const { pool, log, from = Number.POSITIVE_INFINITY, onFound = () => undefined } = options
  const logId = await log.logId()
  await pool.query(forgetGoneSql)
  const resumeFrom = await readSignaturesBefore(
    pool,
    logId,
    Math.min(await readSignaturesChecked(pool, logId), from),
  )
  let next = resumeFrom.position
  const unsigned: UnsignedRow[] = []
  const check = await startCheck(options, resumeFrom, (event, problem) => {
    unsigned.push(rowOf(event, problem))
    onFound(event)
  })

  return {
    next: () => next,
    async take(events) {
      const last = events.at(-1)
      if (last === undefined) return
      await check.take(events, 0)
      next = last.position
      const lastChecked = check.last()
      if (lastChecked === null) return
      const checkedPosition = {
        position: lastChecked.position,
        eventId: lastChecked.id,
        signing: check.signing(),
      }
      await storeFindings(pool, logId, checkedPosition, unsigned)
      unsigned.length = 0
    },
  }
}

const pageSize = 2_000

/** Checks the signatures up to the current end of the log. */
export const checkSignatures = async (
  options: Parameters<typeof openSignatureCheck>[0] & { readonly log: Pick<EventLog, 'readAll'> },
): Promise<void> => {
  const check = await openSignatureCheck(options)
  for (let page: readonly StoredEvent[]; ; ) {
    page = await options.log.readAll(check.next(), pageSize)
    await check.take(page)
    if (page.length < pageSize) return
  }
}

type SignatureWatchDependencies = {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly feed: LogFeed
  readonly runner: CommandRunner
  /** The public key of the sealing key. */
  readonly publicKey: string
  readonly logger: Logger
  readonly verifySignature: VerifySignature
  readonly checked: Pick<CheckedEvents, 'foundUnsigned'>
}

/** As for the invariants: the check need not be fresh, and large batches cost least. */
const batchWindowMs = 500
const maxEvents = 4_000
const retryMs = 1_000

export const signatureWatch = worker({
  name: 'signatures',
  about: 'Checks the signatures of events',
  trigger: { when: 'events are appended' },
  per: 'cluster',
  lock: { auditor: 'signatures' },
  session: 'farebox signatures',
  process: 'auditor',
})

/**
 * Follows the log and checks the signatures of processes. An unsigned event becomes a violation (violations.ts), so
 * that its account is blocked and no seal covers it. One process of a cluster does it at a time.
 */
export const startSignatureWatch = (
  dependencies: SignatureWatchDependencies,
): Pick<RunningWorker, 'stop'> => {
  const { scheduler, feed, runner, logger, checked } = dependencies

  const sealedThrough = async (): Promise<number> => {
    const { last } = await readSeals(runner, {
      actor: { kind: 'system', name: signatureWatch.name },
      correlationId: newId('run'),
    })
    // The ordinal equals the position: a log in Postgres has no gaps.
    return last?.throughOrdinal ?? 0
  }

  return scheduler.lead(
    signatureWatch,
    async ({ signal, round }) => {
      const reader = feed.reader({ batchWindowMs })
      try {
        let foundViolations: Found[] = []
        const onFound = ({ position }: StoredEvent): void => {
          foundViolations.push({ position, rule: signatureRule })
        }
        const check = await openSignatureCheck({ ...dependencies, from: await sealedThrough(), onFound })
        while (!signal.aborted) {
          await reader.waitForEvent(check.next(), signal)
          const events = await reader.nextStored(check.next(), maxEvents, signal)
          await round(() => check.take(events))
          checked.foundUnsigned(foundViolations)
          foundViolations = []
        }
      } finally {
        reader.close()
      }
    },
    {
      onError: (error) => {
        logger.warn({ err: error }, 'the signatures of the log could not be checked and are tried again')
        return retryMs
      },
    },
  )
}

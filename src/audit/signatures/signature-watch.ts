import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import { newId } from '../../kernel/ids.ts'
import { parseUntrustedObject } from '../../kernel/json-text.ts'
import { processKeyStream, sealStream, signingStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'
import { inTransaction } from '../../platform/postgres/transaction.ts'
import type { LogFeed } from '../../platform/projections/feed.ts'
import type { Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import type { CheckedEvents, FoundViolation } from '../checked-events.ts'
import { accountOf } from '../invariants/violation.ts'
import { readSeals } from '../seals/sealing.ts'
import { signatureRule } from '../violations.ts'
import { createSignatureCheck } from './check-signatures.ts'
import { followSealingKey, type IntroducedKey, keyAfter, readIntroduction } from './signing-keys.ts'

/** How far a log was checked, and whether its processes signed there. */
type SignatureCheckpoint = { readonly position: number; readonly signing: boolean }

/** With the event that stood there: a log that was set back has another one. */
type Mark = SignatureCheckpoint & { readonly eventId: string }

/** A check that goes on from where the last one of this log stopped, in whatever process, and keeps what it finds. */
export type ResumableSignatureCheck = {
  /** Where the events begin that `take` wants next. */
  next(): number
  /** Up to which position the events were checked: what waits for the rest of its batch comes after it. */
  reached(): number
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

const foundOf = (event: StoredEvent, problem: string): FoundViolation => {
  const { position, id: eventId, type: eventType, stream, data } = event
  const accountId = accountOf({ stream, data: parseUntrustedObject(data) }) as FoundViolation['accountId']
  return { position, eventId, eventType, stream, accountId, rule: signatureRule, problem }
}

/** Nothing before the first signature is checked, so a log that was long before there were any begins there. */
export const readSignatureCheckpoint = async (
  pool: Pick<pg.Pool, 'query'>,
  logId: string,
): Promise<SignatureCheckpoint> => {
  const { rows } = await pool.query<SignatureCheckpoint>(
    `select coalesce(c.position, (select min(first_position) - 1 from log.signatures), h.last_position) as position,
            coalesce(c.signing, false) as signing
       from log.head h left join (
         select c.* from work.signatures_checked c join log.events e on e.position = c.position and e.id = c.event_id
         ) c on c.log_id = $1::text`,
    [logId],
  )
  return rows[0]!
}

const keep = (
  pool: pg.Pool,
  logId: string,
  { position, eventId, signing }: Mark,
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

/** The key that the last event of the `seal` stream before a position leaves in force; null without one. */
const sealingKeyAt = async (pool: Pick<pg.Pool, 'query'>, position: number): Promise<string | null> => {
  const { rows } = await pool.query<{ data: string }>(
    `select data from log.events where stream = $1::text and position <= $2::bigint order by revision desc limit 1`,
    [sealStream, position],
  )
  return rows[0] === undefined ? null : keyAfter(rows[0])
}

/** What was found of events that the log has no more: it was set back. */
const forgetGone = `
  delete from work.unsigned_events u
   where not exists (select from log.events e where e.position = u.position and e.id = u.event_id)`

/** The last end of a batch at or before a position, and whether processes signed there, by what the log says. */
const readSignaturesBefore = async (
  pool: Pick<pg.Pool, 'query'>,
  position: number,
): Promise<SignatureCheckpoint> => {
  const { rows } = await pool.query<SignatureCheckpoint>(
    `with at as (
       select coalesce((select s.first_position - 1 from (
           select first_position, events from log.signatures where first_position <= $1::bigint
            order by first_position desc limit 1) s
           where s.first_position + s.events > $1::bigint + 1), $1::bigint) as position)
     select at.position,
            coalesce((select max(s.first_position) from log.signatures s where s.first_position <= at.position), 0) >
            coalesce((select max(e.position) from log.events e
                where e.stream = $2::text and e.position <= at.position), 0) as signing
       from at`,
    [position, signingStream],
  )
  return rows[0]!
}

/**
 * @param publicKey of the key that seals, by the settings: it counts in a log that has no seal yet
 * @param from it begins here when the stored checkpoint is further on: what nobody sealed is checked again, whatever a table says
 * @param onFound told of the events that are not signed
 */
export const openSignatureCheck = async ({
  pool,
  log,
  publicKey,
  from = Number.POSITIVE_INFINITY,
  onFound = () => undefined,
}: {
  readonly pool: pg.Pool
  readonly log: Pick<EventLog, 'logId' | 'readStream'>
  readonly publicKey: string
  readonly from?: number
  readonly onFound?: (event: StoredEvent, problem: string) => void
}): Promise<ResumableSignatureCheck> => {
  const logId = await log.logId()
  await pool.query(forgetGone)
  const stored = await readSignatureCheckpoint(pool, logId)
  const checked = stored.position <= from ? stored : await readSignaturesBefore(pool, from)
  let reached = checked.position
  let next = checked.position
  const unsigned: UnsignedRow[] = []

  const findKey = async (of: string): Promise<IntroducedKey | null> => {
    for await (const event of log.readStream(processKeyStream(of))) {
      const key = readIntroduction(event, (await sealingKeyAt(pool, event.position)) ?? publicKey)
      return typeof key === 'string' || key.logId !== logId ? null : key
    }
    return null
  }

  const check = createSignatureCheck({
    pool,
    logId,
    sealingKey: followSealingKey((await sealingKeyAt(pool, checked.position)) ?? publicKey),
    after: checked.position,
    signing: checked.signing,
    findKey,
    onUnsigned: ({ event }, problem) => {
      unsigned.push(rowOf(event, problem))
      onFound(event, problem)
    },
  })

  return {
    next: () => next,
    reached: () => reached,
    async take(events) {
      const last = events.at(-1)
      if (last === undefined) return
      await check.take(events, 0)
      next = last.position
      const looked = check.last()
      if (looked === null) return
      const mark = { position: looked.position, eventId: looked.id, signing: check.signing() }
      await keep(pool, logId, mark, unsigned)
      unsigned.length = 0
      reached = looked.position
    },
  }
}

const pageSize = 2_000

/** Holds the log against its signatures up to where it ends now. */
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

/** How far the log was held against its signatures, by whatever process. */
export type SignatureProgress = {
  /** @throws Error when it is not after a minute */
  reached(position: number, signal: AbortSignal): Promise<void>
}

export type SignatureWatch = SignatureProgress & { stop(): Promise<void> }

export type SignatureWatchDeps = {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly feed: LogFeed
  readonly runner: CommandRunner
  /** Of the key that seals. */
  readonly publicKey: string
  readonly logger: Logger
  readonly checked: Pick<CheckedEvents, 'tookSignatures'>
}

/** As for the laws: a check need not be fresher, and large batches cost least. */
const batchWindowMs = 500
const maxEvents = 4_000
const lookMs = 100
const maxWaitMs = 60_000
const retryMs = 1_000

export const signatureWatch = worker({
  name: 'signatures',
  about: 'Checks the signatures of events',
  trigger: { when: 'events are appended' },
  per: 'cluster',
  lock: 'signatures',
  session: 'farebox signatures',
  process: 'server',
})

/**
 * Follows the log and holds it against what the processes signed. What nobody signed becomes a breach (violations.ts), so
 * that its account is stopped and no seal covers it. Of several processes one does it at a time.
 */
export const startSignatureWatch = (deps: SignatureWatchDeps): SignatureWatch => {
  const { scheduler, pool, log, feed, runner, logger, checked } = deps
  /** While this process checks, how far it came; null while another one does. */
  let own: (() => number) | null = null

  const sealedThrough = async (): Promise<number> => {
    const { last } = await readSeals(runner, {
      actor: { kind: 'system', name: signatureWatch.name },
      correlationId: newId('run'),
    })
    // The position of the event: a log in Postgres has no gaps.
    return last?.throughOrdinal ?? 0
  }

  const { stop } = scheduler.lead(
    signatureWatch,
    async ({ signal, round }) => {
      const reader = feed.reader({ batchWindowMs })
      try {
        let found: FoundViolation[] = []
        const onFound = (event: StoredEvent, problem: string): void => {
          found.push(foundOf(event, problem))
        }
        const check = await openSignatureCheck({ ...deps, from: await sealedThrough(), onFound })
        own = check.reached
        while (!signal.aborted) {
          await reader.waitForEvent(check.next(), signal)
          const events = await reader.nextStored(check.next(), maxEvents, signal)
          const after = check.reached()
          await round(() => check.take(events))
          await checked.tookSignatures({ after, through: check.reached() }, found)
          found = []
        }
      } finally {
        own = null
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

  return {
    async reached(position, signal) {
      const untilMs = performance.now() + maxWaitMs
      const logId = await log.logId()
      while ((own?.() ?? (await readSignatureCheckpoint(pool, logId)).position) < position) {
        if (performance.now() > untilMs)
          throw new Error(`the signatures of the log are not checked up to position ${position}`)
        await sleep(lookMs, undefined, { signal })
      }
    },
    stop,
  }
}

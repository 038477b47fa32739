import type pg from 'pg'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Mailer } from '../../platform/outgoing/mailer.ts'
import type { RunningQueue } from '../../platform/work/queue.ts'
import type { QueueTable } from '../../platform/work/queue-table.ts'
import type { Workers } from '../../platform/work/queue-workers.ts'
import { exponentialBackoff, type Outcome } from '../../platform/work/standard-queue.ts'
import { type RepeatedWorker, worker } from '../../platform/work/worker.ts'
import type { Accounts } from './account-service.ts'

/** A queued e-mail to an account about one event. */
export type AccountMail = {
  readonly account_id: AccountId
  /** The position of the event in the log. */
  readonly position: number
  readonly attempts: number
}

export type AccountMailDependencies = {
  readonly workers: Workers
  readonly pool: pg.Pool
  readonly log: Pick<EventLog, 'eventAt'>
  readonly accounts: Pick<Accounts, 'emailOf'>
  /** Null: no e-mails are sent. */
  readonly mailer: Pick<Mailer, 'deliver'> | null
  /** The name of the service. */
  readonly name: string
  /** The origin of the console. */
  readonly origin: () => string
  readonly clock: Clock
}

/** The e-mails that one statement queues. */
const collectedPerRun = 500

/** The queue of e-mails in a table, with the columns of `AccountMail`. */
export const accountMailQueue = ({
  name,
  table,
  key,
  columns = [],
}: Pick<QueueTable, 'name' | 'table' | 'key'> & { readonly columns?: readonly string[] }): QueueTable => ({
  name,
  table,
  key,
  owner: 'account_id',
  longestWaitMs: 3_600_000,
  columns: ['position', ...columns],
})

/** The worker of a queue of e-mails. */
export const accountMailWorker = ({ name }: QueueTable, about: string): RepeatedWorker =>
  worker({ name, about, trigger: { everyMs: 2_000, quietMs: 20_000 }, per: 'process', process: 'server' })

/**
 * Queues e-mails about new events, each exactly once. `$1` is the time, `$2` the name of the group of read models that
 * finds the events.
 */
const collectSqlOf = ({ table, key, columns }: QueueTable, notices: string): string => {
  const copied = [...key, 'account_id', ...columns]
  return `
    insert into ${table} (${copied.join(', ')}, lineage, due_at)
    select ${copied.map((column) => `n.${column}`).join(', ')}, k.lineage, $1::timestamptz
      from engine.checkpoints k, ${notices} n
     where k.name = $2::text
       and n.position > (select coalesce(max(position), 0) from ${table} where lineage = k.lineage)
     order by n.position limit ${collectedPerRun}
    on conflict (${key.join(', ')}) do update set position = excluded.position, lineage = excluded.lineage`
}
/** An older e-mail is not sent: the account may have changed many times since. */
const maxAgeMs = 24 * 3_600_000

type Letter = { readonly subject: string; readonly text: string; readonly id: string }

type AccountMails<Mail, Event> = {
  readonly worker: RepeatedWorker
  readonly queue: QueueTable
  /** The read table of the events, with the columns of the queue. */
  readonly notices: string
  /** The group of read models that makes it. */
  readonly group: string
  /** The event, if it causes the e-mail; else null. Rows of the queue are not trusted. */
  readonly causeOf: (event: RecordedEvent, mail: Mail) => Event | null
  /** Null: the e-mail is no longer needed. */
  readonly write: (event: Event, mail: Mail) => Letter | null | Promise<Letter | null>
}

/**
 * Sends e-mails to accounts about events. After a crash between the answer of the mail server and our note, an e-mail
 * may be sent twice, with the same `Message-ID`.
 */
export const startAccountMails = <Mail extends AccountMail, Event extends RecordedEvent>(
  { workers, pool, log, accounts, mailer, clock }: AccountMailDependencies,
  { worker: mailWorker, queue, notices, group, causeOf, write }: AccountMails<Mail, Event>,
): RunningQueue => {
  const collectSql = collectSqlOf(queue, notices)
  const doneWith = (result: string): Outcome => ({ kind: 'done', result })

  const collect = async (): Promise<number> => {
    const { rowCount } = await pool.query({
      name: `collect-${queue.name}`,
      text: collectSql,
      values: [isoTime(clock()), group],
    })
    return rowCount ?? 0
  }

  const deliver = async (mail: Mail): Promise<Outcome> => {
    if (mailer === null) return doneWith('no mail server is set')
    const stored = await log.eventAt(mail.position)
    const event = stored && causeOf(decode(stored), mail)
    if (event === null) return doneWith('no event causes it')
    if (clock() - Date.parse(event.metadata.recordedAt) > maxAgeMs) return doneWith('it is too old')
    const cause = {
      actor: { kind: 'system', name: queue.name },
      correlationId: event.metadata.correlationId,
    } as const
    const to = await accounts.emailOf(mail.account_id, cause)
    if (to === null) return doneWith('the account has no e-mail')
    const letter = await write(event, mail)
    if (letter === null) return doneWith('it is no longer needed')
    try {
      await mailer.deliver({ to, ...letter })
      return doneWith('sent')
    } catch (error) {
      // The error of a server may quote the address, so only its code is stored.
      const { code, responseCode } = error as { code?: unknown; responseCode?: unknown }
      return { kind: 'again', why: `the mail server did not accept it: ${responseCode ?? code ?? 'no code'}` }
    }
  }

  return workers.start<Mail>({
    worker: mailWorker,
    queue,
    atOnce: { total: 8, each: 1 },
    longestMs: 60_000,
    schedule: exponentialBackoff(10_000, 3_600_000),
    maxAttempts: 20,
    fill: async () => {
      while ((await collect()) === collectedPerRun);
    },
    work: deliver,
  })
}

import { createHmac, timingSafeEqual } from 'node:crypto'
import type pg from 'pg'
import type { EventLog } from '../platform/eventstore/port.ts'
import type { FoldedBatch } from '../platform/projections/fold-batch.ts'
import { deriveKey, type MasterKey } from '../platform/vault/keys.ts'
import { invariantGroup } from './invariants/invariants.ts'
import { type ViolationRow, violationsTable } from './invariants/violation.ts'
import { isAcknowledged, signatureRule, type Violation } from './violations.ts'

/** Positions after one and up to another. */
export type Range = { readonly after: number; readonly through: number }

/** A violation that a process found. */
export type FoundViolation = Omit<Violation, 'decision'>

/**
 * What this process itself checked and found is in its memory: no statement in the database can change it. What all processes
 * checked and found is in a record that they sign: whoever changes or deletes it makes no event count as checked. Both are about a
 * log in Postgres, whose positions have no gaps.
 */
export type CheckedEvents = {
  /** The signatures of events of a range were checked. */
  tookSignatures(range: Range, found: readonly FoundViolation[]): Promise<void>
  /** A batch of read models was folded. Call it before the batch is written: after a crash its events count as checked. */
  beforeWrite(batch: FoldedBatch): Promise<void>
  /** How many events of a range this process checked against both. */
  count(range: Range): number
  /** Whether processes that sign checked all events of a range against the invariants. */
  covers(range: Range): Promise<boolean>
  /** What was found in events up to a position, and no operator acknowledged in the log. */
  open(log: Pick<EventLog, 'readStream'>, through?: number): Promise<readonly FoundViolation[]>
}

type CheckRecord = Range & { readonly found: readonly FoundViolation[] }

type CheckRecordStore = {
  /** Null where there is none, or none that a process of this service signed for this log. */
  read(): Promise<CheckRecord | null>
  write(record: CheckRecord): Promise<void>
}

const createRecordStore = ({
  pool,
  log,
  master,
}: {
  readonly pool: pg.Pool
  readonly log: Pick<EventLog, 'logId'>
  readonly master: MasterKey
}): CheckRecordStore => {
  const key = deriveKey(master, 'checked events')
  const signatureOf = (logId: string, record: string): Buffer =>
    createHmac('sha256', key).update(`${logId}\n${record}`).digest()
  return {
    async read() {
      const logId = await log.logId()
      const { rows } = await pool.query<{ record: string; signature: Buffer }>(
        'select record, signature from work.checked_events where log_id = $1::text',
        [logId],
      )
      const [row] = rows
      if (row === undefined) return null
      const signature = signatureOf(logId, row.record)
      const isOurs = row.signature.length === signature.length && timingSafeEqual(row.signature, signature)
      return isOurs ? (JSON.parse(row.record) as CheckRecord) : null
    },
    async write(record) {
      const logId = await log.logId()
      const text = JSON.stringify(record)
      await pool.query(
        `insert into work.checked_events (log_id, record, signature) values ($1::text, $2::text, $3::bytea)
         on conflict (log_id) do update set record = excluded.record, signature = excluded.signature`,
        [logId, text, signatureOf(logId, text)],
      )
    },
  }
}

const keyOf = ({ position, rule }: FoundViolation): string => `${position} ${rule}`

const none: Range = { after: 0, through: 0 }

/** The ranges as one where the later one begins within the earlier one or at its end; else the later one. */
const joined = (earlier: Range, later: Range): Range =>
  earlier.after <= later.after && later.after <= earlier.through
    ? { after: earlier.after, through: later.through }
    : later

const isWithin = (range: Range, whole: Range): boolean =>
  whole.after <= range.after && range.through <= whole.through

export const createCheckedEvents = (deps: Parameters<typeof createRecordStore>[0]): CheckedEvents => {
  const store = createRecordStore(deps)
  const own = { invariants: none, signatures: none }
  /** With what other processes had checked before this one began. */
  let known: Range = none
  const violations = new Map<string, FoundViolation>()
  /** This process checks all events from the first one on: what the invariants found before counts no more. */
  let anew = false
  let turn: Promise<unknown> = Promise.resolve()

  const add = (found: readonly FoundViolation[]): void => {
    for (const violation of found) violations.set(keyOf(violation), violation)
  }

  const readRecord = async (): Promise<CheckRecord | null> => {
    const record = await store.read()
    if (record === null) return null
    const isStale = ({ rule }: FoundViolation): boolean =>
      anew && rule !== signatureRule && known.through >= record.through
    add(record.found.filter((violation) => !isStale(violation)))
    known = joined(record, known)
    return record
  }

  /** One at a time: each reads what the one before has written. */
  const save = (): Promise<void> => {
    const saved = turn.then(async () => {
      const record = await readRecord()
      // While the tables are made anew, the record that covers more is kept, with all that was found.
      const range = record !== null && record.through > known.through ? record : known
      await store.write({ after: range.after, through: range.through, found: [...violations.values()] })
    })
    turn = saved.catch(() => undefined)
    return saved
  }

  return {
    async tookSignatures(range, found) {
      own.signatures = joined(own.signatures, range)
      add(found)
      if (found.length > 0) await save()
    },
    async beforeWrite({ group, after, through, tables }) {
      if (group !== invariantGroup.name) return
      anew ||= after === 0
      own.invariants = joined(own.invariants, { after, through })
      known = joined(known, { after, through })
      const changed = tables.find(({ table }) => table.name === violationsTable.name)
      const rows = (changed === undefined
        ? []
        : [...changed.inserted, ...changed.put]) as unknown as ViolationRow[]
      add(
        rows.map(({ event_id: eventId, event_type: eventType, account_id: accountId, ...row }) => ({
          ...row,
          eventId,
          eventType,
          accountId: accountId as Violation['accountId'],
        })),
      )
      await save()
    },
    count({ after, through }) {
      const { invariants, signatures } = own
      const from = Math.max(after, invariants.after, signatures.after)
      return Math.max(0, Math.min(through, invariants.through, signatures.through) - from)
    },
    async covers(range) {
      const record = await readRecord()
      return (
        range.after >= range.through || isWithin(range, known) || (record !== null && isWithin(range, record))
      )
    },
    async open(log, through = Number.POSITIVE_INFINITY) {
      await readRecord()
      const open: FoundViolation[] = []
      for (const [key, violation] of violations) {
        if (violation.position > through) continue
        if (await isAcknowledged(log, violation)) violations.delete(key)
        else open.push(violation)
      }
      return open.sort((one, other) => one.position - other.position)
    },
  }
}

import type pg from 'pg'
import { parseUntrustedObject } from '../kernel/json-text.ts'
import type { EventLog } from '../platform/eventstore/port.ts'
import type { FoldedBatch, FoldWatch } from '../platform/projections/fold-batch.ts'
import type { MasterKey } from '../platform/vault/keys.ts'
import { createRowSigner } from '../platform/vault/seal.ts'
import { accountOf, type ViolationRow, violationsTable } from './invariants/invariant.ts'
import { invariantGroup } from './invariants/invariants.ts'
import { isAcknowledged, type Violation } from './violations.ts'

/** Positions after `after`, up to and including `through`. */
export type Range = { readonly after: number; readonly through: number }

/** A violation that a process found. */
export type Found = Pick<Violation, 'position' | 'rule'>

/**
 * What was checked against the invariants and what was found.
 *
 * This process stores its own results in memory, where no database statement can change them. The results of all
 * processes are in a record that they sign: after a change or deletion of the record, no event counts as checked.
 * Coverage is meant for a log in Postgres, whose positions have no gaps.
 */
export type CheckedEvents = Required<FoldWatch> & {
  /** Adds events that no process signed. They are not recorded: a starting process checks all unsealed events. */
  foundUnsigned(found: readonly Found[]): void
  /** The number of events of a range that this process checked against the invariants. */
  count(range: Range): number
  /** Whether processes of this service checked all events of a range against the invariants. */
  covers(range: Range): Promise<boolean>
  /** The number of violations that this process has stored, including acknowledged ones. */
  found(): number
  /** Violations that no operator acknowledged in the log, in the order of the log. */
  open(
    log: Pick<EventLog, 'readStream' | 'eventAt'>,
    isWanted?: (found: Found) => boolean,
  ): AsyncIterable<Violation>
}

type CheckRecord = {
  /** The number of complete checks from the first event on, and the last position of the latest one. */
  readonly run: number
  readonly runThrough: number
  /** In order, without overlaps or adjacent ranges. */
  readonly ranges: readonly Range[]
  readonly found: readonly Found[]
}

const emptyRecord: CheckRecord = { run: 0, runThrough: 0, ranges: [], found: [] }

/** Merges ranges into the fewest ranges that cover the same positions. */
export const joinRanges = (ranges: readonly Range[]): readonly Range[] => {
  const joined: Range[] = []
  for (const range of ranges.toSorted((one, other) => one.after - other.after)) {
    const last = joined.at(-1)
    if (last === undefined || range.after > last.through) joined.push(range)
    else if (range.through > last.through) joined[joined.length - 1] = { ...last, through: range.through }
  }
  return joined
}

export const keyOf = ({ position, rule }: Found): string => `${position} ${rule}`

const joinFound = (...lists: readonly (readonly Found[])[]): readonly Found[] => [
  ...new Map(lists.flat().map((found) => [keyOf(found), found])).values(),
]

/** Merges two records. When one of them has a later complete check, older violations of the other are dropped. */
const joinRecords = (one: CheckRecord, other: CheckRecord): CheckRecord => {
  const [newer, older] = one.run >= other.run ? [one, other] : [other, one]
  const remainingFound =
    newer.run === older.run ? older.found : older.found.filter(({ position }) => position > newer.runThrough)
  return {
    ...newer,
    runThrough: newer.run === older.run ? Math.max(newer.runThrough, older.runThrough) : newer.runThrough,
    ranges: joinRanges([...newer.ranges, ...older.ranges]),
    found: joinFound(newer.found, remainingFound),
  }
}

const violationsIn = ({ tables }: FoldedBatch): readonly Found[] => {
  const changed = tables.find(({ table }) => table.name === violationsTable.name)
  const rows = (changed === undefined
    ? []
    : [...changed.inserted, ...changed.put]) as unknown as readonly ViolationRow[]
  return rows.map(({ position, rule }) => ({ position, rule }))
}

/** The maximum number of attempts to write the record. Each fails when another process has replaced it. */
const maxAttempts = 20

type Queries = Pick<pg.ClientBase, 'query'> | pg.Pool

const createRecordStore = ({
  pool,
  log,
  master,
}: {
  readonly pool: pg.Pool
  readonly log: Pick<EventLog, 'logId'>
  readonly master: MasterKey
}) => {
  const signer = createRowSigner(master, 'record of checked events v1')
  return {
    /** The record is null when there is none, or when no process of this service signed it for this log. */
    async read(db: Queries = pool): Promise<{ record: CheckRecord | null; signature: Buffer | null }> {
      const logId = await log.logId()
      const { rows } = await db.query<{ record: string; signature: Buffer }>(
        'select record, signature from work.checked_events where log_id = $1::text',
        [logId],
      )
      const [row] = rows
      if (row === undefined) return { record: null, signature: null }
      const { signature } = row
      const isGenuine = signer.isSigned([logId, row.record], signature)
      return { record: isGenuine ? (JSON.parse(row.record) as CheckRecord) : null, signature }
    },
    /**
     * Replaces the record that has the signature `replaced`. Returns null without a change when another record is
     * stored.
     */
    async write(record: CheckRecord, replaced: Buffer | null, db: Queries): Promise<Buffer | null> {
      const logId = await log.logId()
      const text = JSON.stringify(record)
      const signature = signer.sign([logId, text])
      const { rowCount } = await db.query(
        `insert into work.checked_events as c (log_id, record, signature) values ($1::text, $2::text, $3::bytea)
         on conflict (log_id) do update set record = excluded.record, signature = excluded.signature
           where c.signature = $4::bytea`,
        [logId, text, signature, replaced],
      )
      return rowCount === 0 ? null : signature
    },
  }
}

export const createCheckedEvents = (dependencies: Parameters<typeof createRecordStore>[0]): CheckedEvents => {
  const store = createRecordStore(dependencies)
  /** The ranges that this process checked. */
  let ownRanges: readonly Range[] = []
  let knownRecord: CheckRecord = emptyRecord
  /** The signature of the row as last read or written. `knownRecord` contains everything in that row. */
  let storedSignature: Buffer | null = null
  /** The result so far of rebuilding the tables of the invariants. */
  let replayedRecord: CheckRecord = emptyRecord
  let unsigned: readonly Found[] = []
  const acknowledged = new Set<string>()
  let saveQueue: Promise<unknown> = Promise.resolve()

  const readKnown = async (db?: Queries): Promise<void> => {
    const { record, signature } = await store.read(db)
    if (record !== null) knownRecord = joinRecords(knownRecord, record)
    storedSignature = signature
  }

  /** Writes the record. Calls run one after another. */
  const save = (change: (knownRecord: CheckRecord) => CheckRecord, db: Queries): Promise<void> => {
    const write = async (): Promise<void> => {
      for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
        const { found, ...changedRecord } = change(knownRecord)
        const record = {
          ...changedRecord,
          found: found.filter((violation) => !acknowledged.has(keyOf(violation))),
        }
        const signature = await store.write(record, storedSignature, db)
        if (signature !== null) {
          knownRecord = joinRecords(record, knownRecord)
          storedSignature = signature
          return
        }
        await readKnown(db)
      }
      throw new Error(
        'work.checked_events does not store what is written: it was changed, or many processes write to it',
      )
    }
    const saving = saveQueue.then(write)
    saveQueue = saving.catch(() => undefined)
    return saving
  }

  const isRangeCovered = ({ after, through }: Range): boolean =>
    after >= through || knownRecord.ranges.some((range) => range.after <= after && through <= range.through)

  return {
    async beforeWrite(batch) {
      const { group, after, through } = batch
      if (group !== invariantGroup.name) return
      const found = violationsIn(batch)
      await save(
        (record) => ({
          ...record,
          ranges: joinRanges([...record.ranges, { after, through }]),
          found: joinFound(record.found, found),
        }),
        dependencies.pool,
      )
      ownRanges = joinRanges([...ownRanges, { after, through }])
    },
    onReplayed(batch) {
      const { group, after, through } = batch
      if (group !== invariantGroup.name) return
      const previous = after === 0 ? emptyRecord : replayedRecord
      replayedRecord = {
        run: 0,
        runThrough: through,
        ranges: [{ after: 0, through }],
        found: joinFound(previous.found, violationsIn(batch)),
      }
    },
    async beforeSwap(group, client) {
      if (group !== invariantGroup.name) return
      await save((record) => joinRecords({ ...replayedRecord, run: record.run + 1 }, record), client)
      ownRanges = joinRanges([...ownRanges, ...replayedRecord.ranges])
    },
    foundUnsigned(found) {
      unsigned = joinFound(unsigned, found)
    },
    count({ after, through }) {
      const counts = ownRanges.map((range) => Math.min(through, range.through) - Math.max(after, range.after))
      return counts.reduce((sum, count) => sum + Math.max(0, count), 0)
    },
    async covers(range) {
      if (!isRangeCovered(range)) await readKnown()
      return isRangeCovered(range)
    },
    found: () => knownRecord.found.length + unsigned.length,
    async *open(log, isWanted = () => true) {
      await readKnown()
      const found = joinFound(knownRecord.found, unsigned).toSorted(
        (one, other) => one.position - other.position,
      )
      for (const violation of found) {
        const { position, rule } = violation
        const key = keyOf(violation)
        if (acknowledged.has(key) || !isWanted(violation)) continue
        const event = await log.eventAt(position)
        if (event === null) continue
        const { id: eventId, type: eventType, stream, data } = event
        if (await isAcknowledged(log, { eventId, rule })) acknowledged.add(key)
        else
          yield {
            position,
            eventId,
            eventType,
            stream,
            accountId: accountOf({ stream, data: parseUntrustedObject(data) }) as Violation['accountId'],
            rule,
            problem:
              'a process found it, and it is missing in the tables of violations: they were changed; run "ledger verify"',
            decision: null,
          }
      }
    },
  }
}

import type pg from 'pg'
import { positionToken } from '../../kernel/log-position.ts'
import type { PoisonEvent } from '../../platform/projections/fold-batch.ts'

/** Checks, most specific first. Findings about one event are sorted in this order. */
const checkOrder = [
  'seals',
  'signatures',
  'content',
  'ids',
  'revisions',
  'positions',
  'times',
  'postings',
  'invariants',
  'periods',
  'vault',
  'verifications',
  'traffic',
  'append-only',
  'guards',
  'projections',
] as const

/** The names of the checks, which findings show. */
export type CheckName = (typeof checkOrder)[number]

/** The location of an event: its ordinal (1 for the first of the log), its position in this log and its id. */
export type EventLocation = {
  readonly ordinal: number
  readonly position: number
  readonly eventId: string
  readonly type: string
  readonly stream: string
  readonly revision: number
}

/** A difference from the expected state, and its location. */
export type Finding =
  | {
      readonly where: 'event'
      readonly check: CheckName
      readonly event: EventLocation
      readonly problem: string
    }
  /** A range of events. The exact event is unknown. */
  | {
      readonly where: 'events'
      readonly check: CheckName
      readonly fromOrdinal: number
      readonly throughOrdinal: number
      readonly problem: string
    }
  /** A row of a read table, or one column of it, that differs from the log. */
  | {
      readonly where: 'cell'
      readonly check: 'projections'
      readonly group: string
      readonly table: string
      readonly key: Readonly<Record<string, unknown>>
      /** Null when only one side has the row. */
      readonly column: string | null
      readonly live: unknown
      readonly derived: unknown
    }
  /** A group of read models that could not be compared. */
  | {
      readonly where: 'group'
      readonly check: 'projections'
      readonly group: string
      readonly problem: string
    }
  /** A function, key, index, trigger, owner or right that protects the log and differs from the migrations. */
  | {
      readonly where: 'guard'
      readonly check: 'guards'
      /** E.g. `table log.events`. */
      readonly object: string
      /** E.g. `trigger append_only`; null for the object itself. */
      readonly fact: string | null
      /** Null: not expected. */
      readonly expected: string | null
      /** Null: not found. */
      readonly found: string | null
    }
  | { readonly where: 'log'; readonly check: CheckName; readonly problem: string }

export const eventLocationOf = (
  event: Omit<EventLocationRow, 'ordinal'>,
  ordinal: number,
): EventLocation => ({
  ordinal,
  position: event.position,
  eventId: event.id,
  type: event.type,
  stream: event.stream,
  revision: event.revision,
})

const cellText = (finding: Extract<Finding, { where: 'cell' }>): string => {
  const { table, key, column, live, derived } = finding
  const row = `read.${table} ${JSON.stringify(key)}`
  if (column !== null)
    return `${row}: ${column} is ${JSON.stringify(live)}, the log says ${JSON.stringify(derived)}`
  if (live === null) return `${row}: the row is missing, the log says ${JSON.stringify(derived)}`
  return `${row}: the log has no such row, the table has ${JSON.stringify(live)}`
}

const guardText = ({ object, fact, expected, found }: Extract<Finding, { where: 'guard' }>): string => {
  const valueText = (value: string | null): string => (value === null ? 'none' : JSON.stringify(value))
  return `${object}${fact === null ? '' : `, ${fact}`}: expected ${valueText(expected)}, found ${valueText(found)}`
}

export const eventText = ({ ordinal, position, eventId, type, stream, revision }: EventLocation): string =>
  `event ${ordinal} (${eventId}, ${type}, ${stream} revision ${revision}, position ${positionToken(position)})`

/** The check, the location and the problem, in one line. */
export const findingText = (finding: Finding): string => {
  switch (finding.where) {
    case 'event':
      return `${finding.check}: ${eventText(finding.event)}: ${finding.problem}`
    case 'events':
      return `${finding.check}: events ${finding.fromOrdinal} to ${finding.throughOrdinal}: ${finding.problem}`
    case 'cell':
      return `${finding.check}: ${cellText(finding)}`
    case 'group':
      return `${finding.check}: group ${finding.group}: ${finding.problem}`
    case 'guard':
      return `${finding.check}: ${guardText(finding)}`
    case 'log':
      return `${finding.check}: ${finding.problem}`
    default:
      return finding satisfies never
  }
}

/** The external form of a finding: its position is a token. */
export const findingJson = (finding: Finding) =>
  finding.where === 'event'
    ? { ...finding, event: { ...finding.event, position: positionToken(finding.event.position) } }
    : finding

const ordinalOf = (finding: Finding): number => {
  switch (finding.where) {
    case 'event':
      return finding.event.ordinal
    case 'events':
      return finding.throughOrdinal
    case 'guard':
      return 0
    case 'log':
      return finding.check === 'seals' ? 0 : Number.POSITIVE_INFINITY
    case 'cell':
    case 'group':
      return Number.POSITIVE_INFINITY
    default:
      return finding satisfies never
  }
}

/** Sorts findings: seals of the log as a whole and guards, then events in the order of the log, then read tables. */
export const inOrder = (findings: readonly Finding[]): Finding[] =>
  findings.toSorted((one, other) => {
    const [a, b] = [ordinalOf(one), ordinalOf(other)]
    return a === b ? checkOrder.indexOf(one.check) - checkOrder.indexOf(other.check) : a - b
  })

/** Collects findings. All are counted; of each check only the first `maxShownPerCheck` are stored. */
export type Findings = {
  add(finding: Finding): void
  addForLog(check: CheckName, problem: string): void
  addForEvent(check: CheckName, event: EventLocation, problem: string): void
  addForEvents(check: CheckName, fromOrdinal: number, throughOrdinal: number, problem: string): void
  /** Counts further findings that are not listed. */
  addUnshown(more: number): void
  readonly count: number
  /** In the order of the log. */
  list(): readonly Finding[]
}

/** The number of findings that are shown of each check. All are counted. */
const maxShownPerCheck = 100

export const createFindings = (limit = maxShownPerCheck): Findings => {
  const listed: Finding[] = []
  const perCheck = new Map<CheckName, number>()
  let count = 0
  const add = (finding: Finding): void => {
    count += 1
    const previousCount = perCheck.get(finding.check) ?? 0
    perCheck.set(finding.check, previousCount + 1)
    if (previousCount < limit) listed.push(finding)
  }
  return {
    add,
    addForLog: (check, problem) => add({ where: 'log', check, problem }),
    addForEvent: (check, event, problem) => add({ where: 'event', check, event, problem }),
    addForEvents: (check, fromOrdinal, throughOrdinal, problem) =>
      add({ where: 'events', check, fromOrdinal, throughOrdinal, problem }),
    addUnshown(more) {
      count += more
    },
    get count() {
      return count
    },
    list: () => inOrder(listed),
  }
}

/** A row of the table `event_places` in the scratch schema, where the sequence check records every event. */
export type EventLocationRow = {
  ordinal: number
  position: number
  id: string
  type: string
  stream: string
  revision: number
}

export const toEventLocation = (row: EventLocationRow): EventLocation => eventLocationOf(row, row.ordinal)

/**
 * Adds a finding for each row of a statement, in the order of the column `ordinal`. All rows are counted; only the
 * shown ones are fetched.
 * @param sql returns the columns of `EventLocationRow`
 */
export const addEventFindings = async <Row extends EventLocationRow>(
  client: Pick<pg.ClientBase, 'query'>,
  findings: Findings,
  sql: string,
  findingOf: (row: Row) => { readonly check: CheckName; readonly problem: string },
  values: unknown[] = [],
): Promise<void> => {
  const { rows, total } = await firstRows<Row>(client, sql, 'ordinal', values)
  for (const row of rows) findings.add({ where: 'event', ...findingOf(row), event: toEventLocation(row) })
  findings.addUnshown(total - rows.length)
}

/** The shown rows of a statement, and the number of all rows. */
export const firstRows = async <Row extends object>(
  client: Pick<pg.ClientBase, 'query'>,
  sql: string,
  order: string,
  values: unknown[] = [],
): Promise<{ readonly rows: readonly Row[]; readonly total: number }> => {
  const { rows } = await client.query<Row & { total_rows: number }>(
    `select *, count(*) over () as total_rows from (${sql}) as found order by ${order} limit ${maxShownPerCheck}`,
    values,
  )
  return { rows, total: rows[0]?.total_rows ?? 0 }
}

/** Events that a read model could not process. */
export type Poisons = {
  take(poison: PoisonEvent): void
  /** Adds one finding for each event, however many models failed. */
  report(client: pg.Client, schema: string, findings: Findings): Promise<void>
}

type Problem = { readonly models: Set<string>; readonly errorText: string }

/** Events beyond this number are only counted. A genuine log does not have so many. */
const limit = 1_000

export const createPoisons = (): Poisons => {
  const problems = new Map<number, Problem>()
  let unlistedCount = 0
  const take: Poisons['take'] = ({ event, model, cause }) => {
    const existing = problems.get(event.position)
    if (existing) existing.models.add(model)
    else if (problems.size === limit) unlistedCount += 1
    else
      problems.set(event.position, {
        models: new Set([model]),
        errorText: cause instanceof Error ? cause.message : String(cause),
      })
  }
  const problemText = ({ models, errorText }: Problem): string =>
    `a read table cannot take it: ${errorText} (${[...models].join(', ')})`
  return {
    take,
    report: async (client, schema, findings) => {
      const { rows } = await client.query<EventLocationRow>(
        `select * from ${schema}.event_places where position = any ($1::bigint[]) order by ordinal`,
        [[...problems.keys()]],
      )
      for (const row of rows) {
        const problem = problems.get(row.position) as Problem
        findings.addForEvent('content', toEventLocation(row), problemText(problem))
      }
      if (unlistedCount === 0) return
      findings.addForLog('content', `read tables could not take ${unlistedCount} more events`)
      findings.addUnshown(unlistedCount - 1)
    },
  }
}

type Row = EventLocationRow & {
  problem: string
  reason: string | null
  decided_by: string | null
  decided_at: string | null
}

/** Appends an operator's decision to the problem. The finding stays. */
const problemOf = ({ problem, reason, decided_by: by, decided_at: at }: Row): string =>
  reason === null ? problem : `${problem}; ${by} decided on ${at} that it stands: ${reason}`

/** Rules about the entries in the books. */
const postingRules = ['postings', 'cross-book']

/** Adds a finding for each violation of a rule about the books (`postings`), or of any other rule. */
export const readViolations = (
  client: pg.Client,
  schema: string,
  findings: Findings,
  check: 'postings' | 'invariants',
): Promise<void> =>
  addEventFindings<Row>(
    client,
    findings,
    `select v.problem, d.reason, d.decided_by, d.decided_at, e.*
       from ${schema}.violations v join ${schema}.event_places e using (position)
       left join ${schema}.audit_decided d using (event_id, rule)
      where (v.rule = any ($1::text[])) = $2::boolean`,
    (row) => ({ check, problem: problemOf(row) }),
    [postingRules, check === 'postings'],
  )

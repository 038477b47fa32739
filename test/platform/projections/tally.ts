import { randomUUID } from 'node:crypto'
import type { DomainEvent, EventMetadata, RecordedEvent } from '../../../src/kernel/event.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'
import type { StreamName } from '../../../src/kernel/streams.ts'
import { ledgerStream } from '../../../src/kernel/streams.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import type { ReadModel, ReadModelGroup, Table } from '../../../src/platform/projections/read-model.ts'

/** The smallest facts with every kind of change: a row that grows, rows that only come, rows that go. */
export type Fact =
  | { readonly kind: 'add'; readonly name: string; readonly amount: number }
  | { readonly kind: 'drop'; readonly name: string }
  | { readonly kind: 'move'; readonly from: string; readonly to: string }
  | { readonly kind: 'poison' }

export type TallyRow = {
  name: string
  sum: number
  facts: number
  trail: readonly string[]
  note: { readonly last: number } | null
  at: string
}
export type EntryRow = { position: number; part: number; name: string; text: string | null }

export const talliesTable: Table<TallyRow> = {
  name: 'tallies',
  columns: {
    name: { type: 'text' },
    sum: { type: 'bigint' },
    facts: { type: 'integer' },
    trail: { type: 'text[]' },
    note: { type: 'jsonb', nullable: true },
    at: { type: 'timestamptz' },
  },
  key: ['name'],
  indexes: ['sum desc, name'],
}

const entriesTable: Table<EntryRow> = {
  name: 'entries',
  columns: {
    position: { type: 'bigint' },
    part: { type: 'integer' },
    name: { type: 'text' },
    text: { type: 'text', nullable: true },
  },
  key: ['position', 'part'],
  indexes: [],
}

type FactEvent = DomainEvent<'Fact', Fact>

const namesOf = (fact: Fact): readonly string[] => {
  if (fact.kind === 'poison') return []
  return fact.kind === 'move' ? [fact.from] : [fact.name]
}

export const tallies: ReadModel = {
  name: 'tallies',
  version: 1,
  tables: [talliesTable],
  // `move` names only one of its two rows: the other is loaded on demand.
  reads: (event) =>
    namesOf((event as RecordedEvent<FactEvent>).data).map((name) => ({ table: 'tallies', key: [name] })),
  apply: (recorded, rows) => {
    const event = recorded as RecordedEvent<FactEvent>
    const fact = event.data
    const { recordedAt: at } = event.metadata
    const grow = (name: string, amount: number): void => {
      const row = rows.get(talliesTable, [name])
      rows.put(talliesTable, {
        name,
        sum: (row?.sum ?? 0) + amount,
        facts: (row?.facts ?? 0) + 1,
        trail: [...(row?.trail ?? []), `"${amount}", \\{é}`].slice(-3),
        note: row ? { last: amount } : null,
        at,
      })
    }
    switch (fact.kind) {
      case 'add':
        return grow(fact.name, fact.amount)
      case 'drop':
        return rows.remove(talliesTable, [fact.name])
      case 'move': {
        const sum = rows.get(talliesTable, [fact.from])?.sum ?? 0
        grow(fact.from, -sum)
        return grow(fact.to, sum)
      }
      case 'poison':
        throw new Error('this fact cannot be applied')
    }
  },
}

export const entries: ReadModel = {
  name: 'entries',
  version: 1,
  tables: [entriesTable],
  reads: () => [],
  apply: (recorded, rows) => {
    const event = recorded as RecordedEvent<FactEvent>
    if (event.data.kind !== 'add') return
    const { name, amount } = event.data
    rows.put(entriesTable, {
      position: event.position,
      part: 0,
      name,
      text: amount % 2 === 0 ? null : `${amount}`,
    })
  },
}

/** Poison stops only `first`, whose model throws on it. */
export const first: ReadModelGroup = { name: 'first', models: [tallies] }
export const second: ReadModelGroup = { name: 'second', models: [entries] }
export const both: ReadModelGroup = { name: 'both', models: [tallies, entries] }

const metadata = (correlationId: string): EventMetadata => ({
  correlationId,
  causationId: null,
  actor: { kind: 'system', name: 'test' },
  recordedAt: new Date().toISOString(),
})

/** Appends events as one command, each in its own stream; returns the position of the last. */
export const appendFacts = async (
  log: EventLog,
  facts: readonly Fact[],
  correlationId = randomUUID(),
): Promise<number> => {
  let position = 0
  for (const fact of facts) {
    const stream = `order-${randomUUID()}` as StreamName
    const event = {
      id: randomUUID(),
      type: 'Fact',
      data: JSON.stringify(fact),
      metadata: JSON.stringify(metadata(correlationId)),
    }
    position = (await log.append(stream, 'noStream', [event])).position
  }
  return position
}

/** Appends many facts in few calls, `perCommand` of them under one correlation id. */
export const appendMany = async (log: EventLog, facts: readonly Fact[], perCommand = 3): Promise<void> => {
  for (let from = 0; from < facts.length; from += 300) {
    const items = facts.slice(from, from + 300).map((fact, index) => ({
      appends: [
        {
          stream: `order-${randomUUID()}` as StreamName,
          expected: 'noStream' as const,
          events: [
            {
              id: randomUUID(),
              type: 'Fact',
              data: JSON.stringify(fact),
              metadata: JSON.stringify(metadata(`command-${Math.floor((from + index) / perCommand)}`)),
            },
          ],
        },
      ],
    }))
    const outcomes = await log.appendAll(items)
    const failed = outcomes.find(({ status }) => status !== 'landed')
    if (failed) throw new Error(`an append ended ${failed.status}`)
  }
}

/** Appends a fact that adds 1 to `wallet` to the account's ledger, as any process may; gives its position. */
export const appendToLedger = async (log: EventLog, account: AccountId): Promise<number> => {
  const stream = ledgerStream(account)
  const last = await log.lastOf(stream)
  const fact: Fact = { kind: 'add', name: 'wallet', amount: 1 }
  const event = {
    id: randomUUID(),
    type: 'Fact',
    data: JSON.stringify(fact),
    metadata: JSON.stringify(metadata(randomUUID())),
  }
  return (await log.append(stream, last?.revision ?? 'noStream', [event])).position
}

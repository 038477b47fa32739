import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  listMargins,
  type MarginDimension,
  marginLinesTable,
  marginSumsTable,
  margins,
  type Period,
} from '../../projections/margins.ts'
import type { RecordedEvent } from '../../src/kernel/event.ts'
import type { AccountId } from '../../src/kernel/ids.ts'
import { wholeAccount } from '../../src/kernel/scopes.ts'
import { columnNames, createIndexSql, createTableSql } from '../../src/platform/projections/definition.ts'
import type { Table } from '../../src/platform/projections/read-model.ts'
import fc, { runs } from '../support/fast-check.ts'
import { testDatabase } from '../support/postgres.ts'
import { foldInMemory } from './memory-rows.ts'

const reseller = 'acc_shop' as AccountId
const hourMs = 3_600_000
const startMs = Date.parse('2026-01-30T21:00:00.000Z')

type Sale = {
  readonly afterHours: number
  readonly customer: number
  readonly product: number
  readonly back: boolean
}

const sale: fc.Arbitrary<Sale> = fc.record({
  afterHours: fc.oneof(fc.integer({ min: 0, max: 30 }), fc.integer({ min: 0, max: 24 * 40 })),
  customer: fc.nat(3),
  product: fc.nat(2),
  back: fc.boolean(),
})

/** Money events of a reseller as the log gives them: sales, some of them with a refund a day later at most. */
const eventsOf = (sales: readonly Sale[]): readonly RecordedEvent[] => {
  let atMs = startMs
  const events: RecordedEvent[] = []
  const write = (type: string, data: object): void => {
    events.push({
      id: `event-${events.length}`,
      stream: `ledger-${reseller}`,
      revision: events.length,
      position: events.length + 1,
      type,
      data,
      metadata: {
        correlationId: 'test',
        causationId: null,
        actor: { kind: 'system', name: 'test' },
        recordedAt: new Date(atMs).toISOString(),
      },
    } as unknown as RecordedEvent)
  }
  for (const [n, { afterHours, customer, product, back }] of sales.entries()) {
    atMs += afterHours * hourMs
    const orderId = `ord_${n}`
    const customerId = `cus_${customer}`
    const cents = { amountMicros: (n + 3) * 70_000, costMicros: (n + 3) * 50_000 }
    write('CustomerCharged', {
      order: { orderId, productId: `product-${product}`, quantity: 1 },
      customerId,
      ...cents,
    })
    if (back) {
      atMs += 7 * hourMs
      write('CustomerRefunded', { orderId, reference: `ref_${n}`, customerId, ...cents })
    }
  }
  return events
}

/** An instant about the sales: on a day's or month's edge, or anywhere. */
const instant = fc
  .tuple(fc.integer({ min: -24 * 40, max: 24 * 200 }), fc.constantFrom('hour', 'day', 'month'))
  .map(([hours, edge]) => {
    const text = new Date(startMs + hours * hourMs).toISOString()
    if (edge === 'hour') return Date.parse(text)
    return Date.parse(edge === 'day' ? text.slice(0, 10) : `${text.slice(0, 7)}-01`)
  })

test('margins of any period are the lines in it, by day, product and customer', async (t) => {
  const { pool } = await testDatabase(t)
  await pool.query('create schema if not exists read')
  for (const table of [marginLinesTable, marginSumsTable] as Table[])
    for (const sql of [createTableSql('read', table), ...createIndexSql('read', table)]) await pool.query(sql)
  const fill = async (table: Table, rows: readonly object[]): Promise<void> => {
    const columns = Object.entries(table.columns).map(([name, { type }]) => `"${name}" ${type}`)
    await pool.query(`truncate read.${table.name}`)
    await pool.query(
      `insert into read.${table.name} (${columnNames(table).join(', ')})
       select * from json_to_recordset($1::json) as given (${columns.join(', ')})`,
      [JSON.stringify(rows)],
    )
  }
  const histories = runs(40, 500)
  let periods = 0
  let months = 0
  await fc.assert(
    fc.asyncProperty(
      fc.array(sale, { minLength: 1, maxLength: 40 }),
      fc.array(fc.tuple(fc.option(instant), fc.option(instant)), { minLength: 1, maxLength: 10 }),
      async (sales, bounds) => {
        const read = foldInMemory(margins, eventsOf(sales))
        const lines = read(marginLinesTable)
        await fill(marginLinesTable as Table, lines)
        await fill(marginSumsTable as Table, read(marginSumsTable))
        months += read(marginSumsTable).filter(({ span }) => span === 'month').length
        for (const [one, two] of bounds) {
          if (one !== null && one === two) continue
          const [fromMs, toMs] = one !== null && two !== null && one > two ? [two, one] : [one, two]
          const period: Period = { fromMs, toMs }
          const inside = lines.filter(
            ({ at }) =>
              (fromMs === null || Date.parse(at) >= fromMs) && (toMs === null || Date.parse(at) < toMs),
          )
          const keyOf: Record<MarginDimension, (line: (typeof lines)[number]) => string> = {
            day: ({ at }) => at.slice(0, 10),
            product: ({ productId }) => productId,
            customer: ({ customerId }) => customerId,
          }
          for (const groupBy of ['day', 'product', 'customer'] as const) {
            const expected = new Map<string, number[]>()
            for (const line of inside) {
              const [orders, revenue, cost] = expected.get(keyOf[groupBy](line)) ?? [0, 0, 0]
              expected.set(keyOf[groupBy](line), [
                orders! + (line.type === 'sale' ? 1 : 0),
                revenue! + line.revenueMicros / 10_000,
                cost! + line.costMicros / 10_000,
              ])
            }
            const { margins: rows, total } = await listMargins(pool, wholeAccount(reseller), {
              ...period,
              groupBy,
              limit: 1_000,
              offset: 0,
            })
            assert.equal(total, expected.size)
            assert.deepEqual(
              new Map(rows.map((row) => [row.key, [row.orders, row.revenueCents, row.costCents]])),
              expected,
              `${groupBy} ${JSON.stringify(period)}`,
            )
            const past = await listMargins(pool, wholeAccount(reseller), {
              ...period,
              groupBy,
              limit: 1,
              offset: 900,
            })
            assert.deepEqual(past, { margins: [], total })
            periods += 1
          }
        }
      },
    ),
    { numRuns: histories },
  )
  assert.ok(periods > 5 * histories && months > histories, `${periods} periods, ${months} sums of months`)
})

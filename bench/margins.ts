import type pg from 'pg'
import { listMargins, marginLinesTable, marginSumsTable, type Period } from '../projections/margins.ts'
import type { AccountId } from '../src/kernel/ids.ts'
import { wholeAccount } from '../src/kernel/scopes.ts'
import { createPool } from '../src/platform/postgres/pool.ts'
import { createIndexSql, createTableSql } from '../src/platform/projections/definition.ts'
import type { Table } from '../src/platform/projections/read-model.ts'
import type { Bench } from './bench.ts'
import { withDatabase } from './database.ts'

/** Customers and the days on which each of them buys, once a day: 200,000 sales in 2026, each time. */
const shops = [
  { customers: 2_000, days: 100 },
  { customers: 10_000, days: 20 },
  { customers: 200_000, days: 1 },
] as const
const runs = 20

const periods: Readonly<Record<string, Period>> = {
  'the year': { fromMs: Date.UTC(2026, 0, 1), toMs: Date.UTC(2027, 0, 1) },
  '10 weeks': { fromMs: Date.UTC(2026, 1, 9), toMs: Date.UTC(2026, 3, 20) },
}

const took = async (ask: () => Promise<unknown>): Promise<number> => {
  const startedMs = performance.now()
  await ask()
  return performance.now() - startedMs
}

/** Fills the read tables as the projection would. */
const fill = async (pool: pg.Pool): Promise<void> => {
  await pool.query('create schema read')
  for (const table of [marginLinesTable, marginSumsTable] as Table[])
    for (const sql of [createTableSql('read', table), ...createIndexSql('read', table)]) await pool.query(sql)
  for (const { customers, days } of shops) {
    const reseller = `acc_${customers}`
    await pool.query(
      `insert into read.margin_lines
         select format('ord_%s_%s_%s', $1::text, c, n), 'sale', $1::text, at, row_number() over (order by at), 'event',
                'order', 'cus_' || md5(c::text), 'isp-static', 1, 7280000, 4900000
           from generate_series(1, $2::integer) c, generate_series(0, $3::integer - 1) n,
                lateral (select timestamptz '2026-01-01 12:00Z' + interval '1 day' * ((n * 365 / $3::integer + c) % 365) as at) as d`,
      [reseller, customers, days],
    )
  }
  for (const [dimension, span, format, key] of [
    ['day', 'day', 'YYYY-MM-DD', `to_char(at at time zone 'UTC', 'YYYY-MM-DD')`],
    ['product', 'day', 'YYYY-MM-DD', 'product_id'],
    ['customer', 'day', 'YYYY-MM-DD', 'customer_id'],
    ['customer', 'month', 'YYYY-MM', 'customer_id'],
  ])
    await pool.query(
      `insert into read.margin_sums
         select reseller_id, '${dimension}', '${span}', to_char(at at time zone 'UTC', '${format}') as starts, ${key} as key,
                count(*), sum(revenue_micros), sum(cost_micros)
           from read.margin_lines group by reseller_id, starts, key`,
    )
  await pool.query('vacuum analyze')
}

/** A reseller's margins by customer over 200,000 sales, compared with the same sums of the lines. */
const measure = async (pool: pg.Pool, print: (line: string) => void): Promise<void> => {
  await fill(pool)
  print('                                            from lines ms  p50 ms     p99 ms')
  for (const { customers, days } of shops)
    for (const [name, period] of Object.entries(periods)) {
      const reseller = `acc_${customers}` as AccountId
      const plain = await took(() =>
        pool.query(
          `select customer_id, count(*), sum(revenue_micros), sum(cost_micros) from read.margin_lines
              where reseller_id = $1 and at >= $2 and at < $3 group by customer_id order by 3 desc limit 50`,
          [reseller, new Date(period.fromMs!).toISOString(), new Date(period.toMs!).toISOString()],
        ),
      )
      const ask = () =>
        listMargins(pool, wholeAccount(reseller), { ...period, groupBy: 'customer', limit: 50, offset: 0 })
      const tookMs: number[] = []
      for (let n = 0; n < runs; n += 1) tookMs.push(await took(ask))
      tookMs.sort((a, b) => a - b)
      const figure = (ms: number | undefined) => (ms ?? 0).toFixed(1).padStart(11)
      print(
        `  ${`${customers} customers on ${days} days each, ${name}`.padEnd(42)}${figure(plain)}${figure(tookMs[runs / 2])}${figure(tookMs.at(-1))}`,
      )
    }
}

/** Margins by customer, the one read of a reseller that grows with its customers. */
export const margins: Bench = {
  name: 'margins',
  what: "a reseller's margins by customer over 200,000 sales, compared with the sum of its lines",
  run: ({ url, print }) =>
    withDatabase(url, async (own) => {
      const pool = createPool({ url: own, applicationName: 'farebox-bench' })
      try {
        await measure(pool, print)
      } finally {
        await pool.end()
      }
    }),
}

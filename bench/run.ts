import { mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, cpus, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { startEmbeddedPostgres } from '../src/postgres/embedded.ts'
import { benchAppends } from './append.ts'
import { benchExports } from './exports.ts'
import { benchFinance } from './finance.ts'
import { benchOrders } from './orders.ts'
import { benchRebuild } from './rebuild.ts'
import { benchVerify } from './verify.ts'
import { benchWebhooks } from './webhooks.ts'

/**
 * `npm run bench [-- appends|orders|rebuild|finance|exports|verify|webhooks …]`: every figure beside a peer or a limit, on one Postgres of its own with the
 * settings that `npm start` uses. Durability is on for both sides.
 */
const all = ['appends', 'orders', 'rebuild', 'finance', 'exports', 'verify', 'webhooks'] as const
type Part = (typeof all)[number]

const args = process.argv.slice(2)
const wrong = args.filter((arg) => !all.includes(arg as Part))
if (wrong.length > 0) {
  process.stderr.write(`there is no benchmark ${wrong.join(', ')}; there are ${all.join(', ')}\n`)
  process.exit(2)
}
const parts: readonly Part[] = args.length === 0 ? all : (args as Part[])
const print = (line: string): void => void process.stdout.write(`${line}\n`)

const dataDir = await mkdtemp(join(tmpdir(), 'farebox-bench-postgres-'))
const server = await startEmbeddedPostgres({ dataDir, role: 'benchmark' })
try {
  print(
    `${cpus()[0]?.model.trim()}, ${availableParallelism()} cores, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}`,
  )
  const client = new pg.Client({ connectionString: server.url })
  await client.connect()
  const settings = [
    'server_version',
    'fsync',
    'synchronous_commit',
    'full_page_writes',
    'shared_buffers',
    'max_wal_size',
  ]
  const { rows } = await client.query(
    'select name, current_setting(name) as value from unnest($1::text[]) name',
    [settings],
  )
  await client.end()
  print(rows.map(({ name, value }) => `${name} ${value}`).join(', '))
  print(
    `load average at the start: ${(await import('node:os'))
      .loadavg()
      .map((n) => n.toFixed(1))
      .join(' ')}\n`,
  )
  if (parts.includes('appends')) await benchAppends({ url: server.url, print })
  if (parts.includes('orders'))
    await benchOrders({
      url: server.url,
      print,
      seconds: Number(process.env.BENCH_SECONDS ?? 10),
      scale: Number(process.env.BENCH_TPCB_SCALE ?? 150),
    })
  if (parts.includes('rebuild'))
    await benchRebuild({ url: server.url, print, events: Number(process.env.BENCH_EVENTS ?? 1_000_000) })
  if (parts.includes('exports')) await benchExports({ url: server.url, print })
  if (parts.includes('finance')) await benchFinance({ url: server.url, print })
  if (parts.includes('verify'))
    await benchVerify({ url: server.url, print, events: Number(process.env.BENCH_EVENTS ?? 1_000_000) })
  if (parts.includes('webhooks'))
    await benchWebhooks({
      url: server.url,
      print,
      deliveries: Number(process.env.BENCH_DELIVERIES ?? 10_000),
      fanOut: Number(process.env.BENCH_FAN_OUT ?? 100_000),
    })
} finally {
  await server.stop()
  await rm(dataDir, { recursive: true, force: true })
}

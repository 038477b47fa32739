import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import type pg from 'pg'
import { type Bench, type BenchContext, figure } from './bench.ts'
import { withDatabase, withLogOf } from './database.ts'
import { runLoad } from './orders/load.ts'
import { serverSettings, startServer, stopServer } from './orders/server.ts'
import { cpuMicros } from './process-cpu.ts'

/** What the list has to reach of a bare hello of the same framework, which checks, limits, counts and names nothing. */
const floor = 0.8
const connections = 50
const rounds = 6
const warmUpMs = 1_500
const proxies = 2_000

/** Live proxies of many countries; nothing checks them here. */
const fill = (pool: pg.Pool): Promise<unknown> =>
  pool.query(
    `insert into work.free_proxies (ip, port, state, protocols, anonymity, exit_ip, latencies, hours, hour, checks, successes,
       first_seen, last_checked, last_answered, next_due)
     select ip, 8080, 'live', 1 + n % 15, 'elite', ip, '\\x0064'::bytea, decode(repeat('00010001', 24), 'hex'),
       (extract(epoch from now()) / 3600)::int, 24, 24, now(), now(), now(), now() + interval '1 hour'
     from (select n, '16.0.0.0'::inet + n::bigint * 1800000 as ip from generate_series(1, $1) n) as made`,
    [proxies],
  )

type Subject = {
  readonly name: string
  readonly url: URL
  readonly path: string | readonly string[]
  readonly pid: number
}
type Measured = { readonly perSecond: number; readonly micros: number }

const measure = async ({ url, path, pid }: Subject, measureMs: number): Promise<Measured> => {
  const job = {
    host: url.hostname,
    port: Number(url.port),
    connections,
    run: '',
    path,
    keys: ['none'],
    bodies: [],
  }
  await runLoad({ ...job, warmUpMs: 0, measureMs: warmUpMs })
  const before = await cpuMicros(`/proc/${pid}/task/${pid}`)
  const { perSecond, latenciesMs, statuses } = await runLoad({ ...job, warmUpMs: 0, measureMs })
  const after = await cpuMicros(`/proc/${pid}/task/${pid}`)
  const failed = latenciesMs.length - (statuses['200'] ?? 0)
  if (failed > 0) throw new Error(`${failed} of ${latenciesMs.length} requests of ${path} failed`)
  return { perSecond, micros: (after - before) / latenciesMs.length }
}

/** The round that other programs of the machine disturbed least. */
const best = (key: keyof Measured, values: readonly Measured[]): number => {
  const all = values.map((one) => one[key])
  return key === 'perSecond' ? Math.max(...all) : Math.min(...all)
}

/** Each in turn, so that what else the machine does falls on all of them. */
const compare = async (subjects: readonly Subject[], { print, sizes }: BenchContext): Promise<void> => {
  const found = new Map<string, Measured[]>(subjects.map(({ name }) => [name, []]))
  const eachMs = Math.max(500, (sizes.seconds * 1000) / rounds)
  for (let round = 0; round < rounds; round += 1)
    for (const subject of subjects) found.get(subject.name)!.push(await measure(subject, eachMs))
  const of = (name: string, value: keyof Measured): number => best(value, found.get(name)!)
  const [hello] = subjects
  print(
    `  ${connections} connections in a closed loop, the best of ${rounds} rounds; load average ${loadavg()[0]!.toFixed(1)}`,
  )
  for (const { name } of subjects) {
    const ratio = of(name, 'perSecond') / of(hello!.name, 'perSecond')
    const cost = of(hello!.name, 'micros') / of(name, 'micros')
    print(
      `  ${name.padEnd(42)}${figure(of(name, 'perSecond')).padStart(9)} a second, × ${ratio.toFixed(2)}   ${of(name, 'micros').toFixed(1).padStart(5)} µs of its thread, × ${cost.toFixed(2)}`,
    )
  }
  const list = subjects[1]!.name
  const met = of(list, 'perSecond') >= floor * of(hello!.name, 'perSecond')
  print(`  floor of the list: × ${floor.toFixed(2)} of the hello, ${met ? 'met' : 'MISSED'}`)
}

const startHello = async () => {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'free-tools/hello.ts')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await once(child.stdout.setEncoding('utf8'), 'data')) as [string]
  return { child, url: new URL(line.trim()) }
}

const lookUps = Array.from(
  { length: 500 },
  (_, n) => `/api/ip-lookup?ip=${1 + (n % 220)}.${(n * 7) % 256}.${(n * 13) % 256}.9`,
)

const unlimited = '1000000/1000000'

/** Requests to the free tools with their limits on, compared with a bare hello of the framework. */
export const freeTools: Bench = {
  name: 'free-tools',
  what: 'requests a second of the free proxy list and look-ups of addresses, compared with a bare Fastify hello',
  run: async (context) => {
    const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
    try {
      await withDatabase(context.url, async (database) => {
        const settings = {
          ...serverSettings(database, directory),
          FAREBOX_RATE_LIMIT: 'on',
          FAREBOX_RATE_ADDRESS: unlimited,
          FAREBOX_RATE_LIST: unlimited,
          FAREBOX_RATE_LOOKUP: unlimited,
        }
        const { child, url } = await startServer(settings)
        const hello = await startHello()
        try {
          await withLogOf(database, ({ pool }) => fill(pool))
          const ours = { url, pid: child.pid ?? 0 }
          await compare(
            [
              { name: 'bare Fastify hello', url: hello.url, path: '/', pid: hello.child.pid ?? 0 },
              {
                name: 'list, txt, 100 proxies of one protocol',
                ...ours,
                path: '/api/proxy-list?format=txt&protocol=socks5',
              },
              { name: 'list, JSON, 100 proxies', ...ours, path: '/api/proxy-list' },
              { name: 'list, txt, 1,000 proxies', ...ours, path: '/api/proxy-list?format=txt&limit=1000' },
              { name: 'look-up of an address', ...ours, path: lookUps },
            ],
            context,
          )
        } finally {
          hello.child.kill()
          await stopServer(child)
        }
      })
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  },
}

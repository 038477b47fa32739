import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { pino } from 'pino'
import { allMigrations } from '../src/app/migrations.ts'
import type { SocketAddress } from '../src/domain/free-list/endpoint.ts'
import { createChecker, createCpuBudget } from '../src/features/free-list/endpoint-checker.ts'
import { addCandidates, createRecordStore } from '../src/features/free-list/endpoint-store.ts'
import { judgeKeys } from '../src/features/free-list/judge.ts'
import { openJudge } from '../src/features/free-list/judge-access.ts'
import { createProber } from '../src/features/free-list/open-checking.ts'
import { migrate } from '../src/platform/postgres/migrate.ts'
import { createPool } from '../src/platform/postgres/pool.ts'
import { masterKey } from '../src/platform/vault/keys.ts'
import { worker } from '../src/platform/work/worker.ts'
import { testScheduler } from '../test/support/scheduler.ts'
import { type Bench, type BenchContext, cpuMs, figure } from './bench.ts'
import { withDatabase } from './database.ts'
import { percentile } from './percentile.ts'

/** As they stand in src/features/free-list/settings.ts. */
const defaults = { sockets: 8_000, connectTimeoutMs: 2_000, timeoutMs: 8_000 }
const usualShare = 0.25
/** Checks of dead endpoints a second that a quarter of a core must do. */
const floor = 3_000
const liveProxies = 200
const liveBeside = 100
const settleMs = 4_000
const mostSeconds = 8

const startScript = async <Value>(file: string, ...args: string[]) => {
  const child: ChildProcess = spawn(
    process.execPath,
    [join(import.meta.dirname, 'freelist', file), ...args],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  let text = ''
  while (!text.endsWith('\n')) text += String((await once(child.stdout!, 'data'))[0])
  return { child, printed: JSON.parse(text) as Value }
}

/** Distinct endpoints of 127.100.0.0/16, where nothing else of the benchmark is. */
const placesAt = (count: number, port: number): readonly SocketAddress[] =>
  Array.from({ length: count }, (_, at) => ({
    ip: `127.${100 + (at >> 16)}.${(at >> 8) & 255}.${at & 255}`,
    port,
  }))

type Measured = {
  readonly perSecond: number
  readonly cpuPercent: number
  /** Until a live one was checked after it was due, the 99th of a hundred, milliseconds. */
  readonly lateMs: number | null
  readonly megabytes: number
}

const repeat = (name: string, everyMs: number, round: () => Promise<void>) =>
  testScheduler().start(
    worker({
      name,
      about: 'Part of the benchmark',
      trigger: { everyMs },
      per: 'process',
      process: 'free-list',
    }),
    round,
  )

/** Checks what is on record again and again for some seconds. */
const measure = async (pool: pg.Pool, share: number, seconds: number): Promise<Measured> => {
  const keys = judgeKeys(masterKey(randomBytes(32)))
  const draw = (): string => randomBytes(12).toString('base64url')
  const monotonicMs = (): number => performance.now()
  const logger = pino({ level: 'silent' })
  const judge = await openJudge({
    address: null,
    listen: null,
    keys,
    resolve: async () => [],
    draw,
    clock: Date.now,
    monotonicMs,
    logger,
  })
  if (!(await judge.answers())) throw new Error('the judge of the benchmark does not answer')
  const prober = createProber({ judge: judge.active, keys, clock: Date.now, monotonicMs, draw })
  let checks = 0
  const dueAtMs = new Map<string, number>()
  const late: number[] = []
  const checker = createChecker({
    store: createRecordStore(pool),
    check: prober.check,
    openSockets: prober.openSockets,
    judgeAnswers: judge.answers,
    mayBegin: createCpuBudget({ share, monotonicMs, cpuMs }),
    limits: defaults,
    clock: Date.now,
    monotonicMs,
    random: Math.random,
    logger,
    onChecked: ({ ip, port }) => {
      checks += 1
      const since = dueAtMs.get(`${ip}:${port}`)
      if (since === undefined) return
      late.push(Date.now() - since)
      dueAtMs.delete(`${ip}:${port}`)
    },
  })
  /** Checked endpoints are due again at once; live ones among dead ones are due every five seconds. */
  const again = async (live: boolean): Promise<void> => {
    const { rows } = await pool.query<SocketAddress>(
      `update work.free_proxies set next_due = now()
        where next_due > now() and (state = 'live') = $1::boolean returning host(ip) as ip, port`,
      [live],
    )
    if (live) for (const { ip, port } of rows) dueAtMs.set(`${ip}:${port}`, Date.now())
  }
  const rounds = repeat('checks', 100, checker.round)
  const others = repeat('due', 400, () => again(false))
  const live = repeat('live-due', 5_000, () => again(true))
  await sleep(settleMs)
  late.length = 0
  const [checksBefore, cpuBefore, startedMs] = [checks, cpuMs(), monotonicMs()]
  await sleep(seconds * 1_000)
  const elapsedMs = monotonicMs() - startedMs
  const measured: Measured = {
    perSecond: ((checks - checksBefore) * 1_000) / elapsedMs,
    cpuPercent: ((cpuMs() - cpuBefore) * 100) / elapsedMs,
    lateMs:
      late.length === 0
        ? null
        : percentile(
            late.sort((a, b) => a - b),
            0.99,
          ),
    megabytes: process.memoryUsage.rss() / 2 ** 20,
  }
  await Promise.all([rounds.stop(), others.stop(), live.stop()])
  await checker.stop()
  prober.stop()
  await judge.close()
  return measured
}

const onRecord = (
  server: string,
  places: readonly SocketAddress[],
  work: (pool: pg.Pool) => Promise<Measured>,
) =>
  withDatabase(server, async (url) => {
    const pool = createPool({ url, applicationName: 'farebox-bench', statementTimeoutMs: 0 })
    try {
      await migrate(pool, allMigrations)
      await addCandidates(pool, places, Date.now())
      return await work(pool)
    } finally {
      await pool.end()
    }
  })

/** Two connections fill the queue of a listener that is stopped. */
const fillQueue = (port: number): readonly Socket[] =>
  Array.from({ length: 2 }, () => connect({ host: '127.0.0.1', port }).on('error', () => undefined))

const run = async ({ url, print, sizes }: BenchContext): Promise<void> => {
  const seconds = Math.min(sizes.seconds, mostSeconds)
  const line = (what: string, { perSecond, cpuPercent, lateMs, megabytes }: Measured, limit = ''): void =>
    print(
      `  ${what.padEnd(30)}${figure(perSecond).padStart(9)}${figure(cpuPercent).padStart(8)}${figure((perSecond * 100) / cpuPercent).padStart(13)}${(lateMs === null ? '–' : figure(lateMs)).padStart(10)}${figure(megabytes).padStart(6)}${limit}`,
    )
  print(
    'checks with their writes to Postgres; the judge runs in the same process, and proxies in another one\n\n' +
      '  endpoints                      checks/s  core %  a core-second   late ms    MB',
  )
  const proxies = await startScript<readonly SocketAddress[]>('proxies.ts', String(liveProxies))
  const silent = await startScript<number>('silent.ts')
  silent.child.kill('SIGSTOP')
  const queue = fillQueue(silent.printed)
  try {
    const refusing = placesAt(20_000, 9)
    const dead = placesAt(20_000, silent.printed)
    line('live', await onRecord(url, proxies.printed, (pool) => measureLive(pool, seconds)))
    line('refused', await onRecord(url, refusing, (pool) => measure(pool, 1, seconds)))
    line(
      'refused, a quarter of a core',
      await onRecord(url, refusing, (pool) => measure(pool, usualShare, seconds)),
    )
    const measured = await onRecord(url, proxies.printed.slice(0, liveBeside), async (pool) => {
      // They are known to be live before the dead ones come.
      await measure(pool, 1, 1)
      await addCandidates(pool, dead, Date.now())
      return measure(pool, usualShare, seconds)
    })
    line(
      'dead, with live ones',
      measured,
      `   ÷ ${figure(floor)} = ${(measured.perSecond / floor).toFixed(2)}`,
    )
  } finally {
    for (const socket of queue) socket.destroy()
    silent.child.kill('SIGKILL')
    proxies.child.kill()
  }
}

/** Live ones alone fall due again at once. */
const measureLive = async (pool: pg.Pool, seconds: number): Promise<Measured> => {
  const again = repeat('live-at-once', 200, async () => {
    await pool.query('update work.free_proxies set next_due = now() where next_due > now()')
  })
  try {
    return { ...(await measure(pool, 1, seconds)), lateMs: null }
  } finally {
    await again.stop()
  }
}

/** What one process of the checker does. */
export const freelist: Bench = {
  name: 'freelist',
  what: 'checks of free proxies a second: live, refused and dead ones; limit 3,000 dead ones on a quarter of a core',
  run,
}

import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { rebuild } from '../projections/engine/rebuild.ts'
import { groups } from '../projections/groups.ts'
import { createEventDigest, startDigest } from '../src/audit/digest.ts'
import { createDigestStore } from '../src/audit/digest-store.ts'
import { sealKeyOf } from '../src/audit/seal-key.ts'
import { openSealing, takeToHead } from '../src/audit/sealing.ts'
import { createCodec } from '../src/eventstore/codec.ts'
import { createCommandRunner } from '../src/eventstore/commands/runner.ts'
import type { EventLog } from '../src/eventstore/port.ts'
import { openPostgresLog } from '../src/eventstore/postgres/log.ts'
import { createLogger } from '../src/http/logging.ts'
import { newEventId } from '../src/ids.ts'
import { migrate } from '../src/postgres/migrate.ts'
import { allMigrations } from '../src/postgres/migrations.ts'
import { clientConfig, createPool } from '../src/postgres/pool.ts'
import { createHistory } from './history.ts'

export type VerifyBenchOptions = {
  /** A Postgres where databases may be made. */
  readonly url: string
  /** The longer of the two logs; default 1,000,000. The shorter has a tenth. */
  readonly events?: number
  print(line: string): void
}

type Verified = {
  readonly ms: number
  readonly cpuMs: number
  readonly peakMib: number
  readonly events: number
  readonly rows: number
  readonly unsealed: number
  readonly findings: readonly unknown[]
}

const run = promisify(execFile)
const figure = (value: number, digits = 0): string =>
  value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
const cpuMs = (): number => {
  const { userCPUTime, systemCPUTime } = process.resourceUsage()
  return (userCPUTime + systemCPUTime) / 1000
}

const key = sealKeyOf(Buffer.alloc(32, 7))
const cause = { actor: { kind: 'system', name: 'bench' }, correlationId: 'bench' } as const

/** What a digest costs this process, beside a SHA-256 of the same bytes. */
const digestCost = async (log: EventLog): Promise<{ readonly digestUs: number; readonly bytes: number }> => {
  const events = await log.readAll(0, 20_000)
  const digestOf = createEventDigest()
  const rounds = 5
  let digest = startDigest()
  const before = cpuMs()
  for (let round = 0; round < rounds; round += 1)
    for (const [at, event] of events.entries()) digest = digestOf(digest, at + 1, event)
  const digestUs = ((cpuMs() - before) * 1000) / (rounds * events.length)
  const bytes = events.reduce((sum, { data, metadata }) => sum + data.length + metadata.length, 0)
  return { digestUs, bytes: bytes / events.length }
}

/** Seals in helpings as the sealer does and gives the CPU of reading, digests, keeping and signing. */
const sealAll = async (pool: pg.Pool, log: EventLog): Promise<number> => {
  const runner = createCommandRunner({
    log,
    clock: Date.now,
    newEventId,
    codec: createCodec(),
    logger: createLogger('fatal'),
  })
  try {
    const store = createDigestStore(pool, await log.logId())
    const sealing = await openSealing({ log, runner, store, key, clock: Date.now }, cause)
    const before = cpuMs()
    await takeToHead(log, sealing.chain)
    await sealing.seal(cause)
    return cpuMs() - before
  } finally {
    await runner.close()
  }
}

const verify = async (url: string): Promise<Verified> => {
  const script = join(import.meta.dirname, 'verify/process.ts')
  const { stdout } = await run(process.execPath, [script, url, key.publicKey], { maxBuffer: 2 ** 24 })
  const verified: Verified = JSON.parse(stdout)
  if (verified.findings.length > 0) throw new Error(JSON.stringify(verified.findings))
  return verified
}

const withAdmin = async (url: string, sql: string): Promise<void> => {
  const admin = new pg.Client({ connectionString: url })
  await admin.connect()
  try {
    await admin.query(sql)
  } finally {
    await admin.end()
  }
}

/**
 * How long a whole verification takes, and how much memory, for a log and for one ten times as long; and what a seal
 * costs the process for each event. The longer one may need a fifth more memory at most.
 */
export const benchVerify = async ({ url, events = 1_000_000, print }: VerifyBenchOptions): Promise<void> => {
  const database = `farebox_bench_${randomBytes(4).toString('hex')}`
  await withAdmin(url, `create database ${database}`)
  const settings = {
    url: Object.assign(new URL(url), { pathname: `/${database}` }).toString(),
    applicationName: 'farebox-bench',
    statementTimeoutMs: 0,
  }
  const pool = createPool(settings)
  try {
    await migrate(pool, allMigrations)
    const log = await openPostgresLog({ pool, connection: clientConfig(settings) })
    try {
      const history = createHistory(log)
      const peaks: number[] = []
      for (const length of [Math.round(events / 10), events]) {
        const before = await log.head()
        await history.until(length)
        const added = (await log.head()) - before
        const sealMs = await sealAll(pool, log)
        // Made from nothing: a rebuild beside live tables stops where those stand.
        await pool.query('drop schema read cascade; create schema read; truncate engine.checkpoints')
        await rebuild({ pool, log, decode: createCodec().decode, groups }, 'all')
        const { ms, cpuMs: usedMs, peakMib, events: verified, rows, unsealed } = await verify(settings.url)
        peaks.push(peakMib)
        print(
          `verify of ${figure(verified)} events and ${figure(rows)} rows: ${figure(ms / 1000, 1)} s, ${figure((verified * 1000) / ms)} events a second, ${figure((usedMs * 1000) / verified, 1)} µs of CPU an event, peak memory ${figure(peakMib)} MiB, ${unsealed} not sealed`,
        )
        print(
          `  sealing ${figure(added)} events: ${figure((sealMs * 1000) / added, 1)} µs of CPU an event, reading them included`,
        )
      }
      const { digestUs, bytes } = await digestCost(log)
      print(`  a digest: ${figure(digestUs, 2)} µs of CPU an event of ${figure(bytes)} bytes`)
      const [shorter = 1, longer = 1] = peaks
      print(
        `  peak memory of the longer log beside the shorter: ${figure(longer / shorter, 2)} (at most 1.2)`,
      )
    } finally {
      await log.close()
    }
  } finally {
    await pool.end()
    await withAdmin(url, `drop database ${database} with (force)`)
  }
}

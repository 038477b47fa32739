import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type pg from 'pg'
import { groups } from '../projections/groups.ts'
import { createDigestStore, createEventDigest, startDigest } from '../src/audit/seals/digests.ts'
import { chainToHead, openSealing } from '../src/audit/seals/sealing.ts'
import { sealKeyOf } from '../src/audit/seals/seals-file.ts'
import { newEventId } from '../src/kernel/ids.ts'
import { stepsOf } from '../src/platform/cli/progress-bar.ts'
import { createCommandRunner } from '../src/platform/commands/command-runner.ts'
import { createCodec } from '../src/platform/eventstore/codec.ts'
import type { EventLog, StoredEvent } from '../src/platform/eventstore/port.ts'
import { createLogger } from '../src/platform/http/logging.ts'
import { rebuild } from '../src/platform/projections/rebuild.ts'
import { type Bench, cpuMs, figure } from './bench.ts'
import { withLog } from './database.ts'
import { createHistory } from './history.ts'
import { readAlone } from './read-alone.ts'
import type { ReplayFigures } from './verify/replay-process.ts'

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

const key = sealKeyOf(Buffer.alloc(32, 7))
const cause = { actor: { kind: 'system', name: 'bench' }, correlationId: 'bench' } as const

/** Processor time of some rounds over the same events, microseconds an event. */
const microsEach = (
  events: readonly StoredEvent[],
  one: (event: StoredEvent, at: number) => void,
): number => {
  const rounds = 5
  const before = cpuMs()
  for (let round = 0; round < rounds; round += 1) events.forEach(one)
  return ((cpuMs() - before) * 1000) / (rounds * events.length)
}

/** The cost of a digest, compared with a SHA-256 of the same data and metadata. */
const digestCost = async (log: EventLog) => {
  const events = await log.readAll(0, 20_000)
  const digestOf = createEventDigest()
  let digest = startDigest()
  const digestUs = microsEach(events, (event, at) => {
    digest = digestOf(digest, at + 1, event)
  })
  const shaUs = microsEach(events, ({ data, metadata }) =>
    createHash('sha256').update(data).update(metadata).digest(),
  )
  const bytes = events.reduce((sum, { data, metadata }) => sum + data.length + metadata.length, 0)
  return { digestUs, shaUs, bytes: bytes / events.length }
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
    await chainToHead(log, sealing.chain)
    await sealing.seal(cause)
    return cpuMs() - before
  } finally {
    await runner.close()
  }
}

const verify = async (url: string): Promise<Verified> => {
  const script = join(import.meta.dirname, 'verify/verify-process.ts')
  const { stdout } = await run(process.execPath, [script, url, key.publicKey], { maxBuffer: 2 ** 24 })
  const verified: Verified = JSON.parse(stdout)
  if (verified.findings.length > 0) throw new Error(JSON.stringify(verified.findings))
  return verified
}

const replay = async (url: string): Promise<ReplayFigures> => {
  const { stdout } = await run(process.execPath, [join(import.meta.dirname, 'verify/replay-process.ts'), url])
  return JSON.parse(stdout)
}

/** The longer log may need a fifth more memory at most. */
const maxPeakRatio = 1.2

/** How long verification and replay of a whole log take, and how much memory, at two lengths; what a seal costs. */
export const verification: Bench = {
  name: 'verify',
  what: 'verification and replay of a log compared with reading it, their memory at two lengths; the cost of sealing',
  run: ({ url: server, print, bar, sizes: { events } }) =>
    withLog(server, async ({ url, pool, log }) => {
      const history = createHistory(log, events)
      const peaks = { verify: [] as number[], replay: [] as number[] }
      for (const length of [Math.round(events / 10), events]) {
        const before = await log.head()
        const step = stepsOf(bar, 'writing a history', length)
        await history.until(length, (written) => step(written, written))
        bar.end()
        const added = (await log.head()) - before
        const sealMs = await sealAll(pool, log)
        // Without live tables: a rebuild next to them stops at their checkpoint.
        await pool.query('drop schema read cascade; create schema read; truncate engine.checkpoints')
        await rebuild({ pool, log, decode: createCodec().decode, groups }, 'all')
        const readMs = await readAlone(log)
        const { ms, cpuMs: usedMs, peakMib, events: verified, rows, unsealed } = await verify(url)
        peaks.verify.push(peakMib)
        print(
          `verify of ${figure(verified)} events and ${figure(rows)} rows: ${figure(ms / 1000, 1)} s, ${figure((verified * 1000) / ms)} events a second, ${figure(ms / readMs, 1)} times as long as reading alone; ${figure((usedMs * 1000) / verified, 1)} µs of CPU an event, peak memory ${figure(peakMib)} MiB, ${unsealed} not sealed`,
        )
        const replayed = await replay(url)
        const replayedMib = replayed.peakBytes / 2 ** 20
        peaks.replay.push(replayedMib)
        print(
          `replay of ${figure(replayed.events)} events (${figure(replayed.entries)} entries, ${figure(replayed.accounts)} accounts): ${figure(replayed.ms / 1000, 1)} s, ${figure((replayed.events * 1000) / replayed.ms)} events a second, ${figure(replayed.ms / readMs, 1)} times as long as reading alone; ${figure((replayed.cpuMs * 1000) / replayed.events, 1)} µs of CPU an event, peak memory ${figure(replayedMib)} MiB`,
        )
        print(
          `sealing ${figure(added)} events: ${figure((sealMs * 1000) / added, 1)} µs of CPU an event, reading them included`,
        )
      }
      const { digestUs, shaUs, bytes } = await digestCost(log)
      print(
        `a digest: ${figure(digestUs, 2)} µs of CPU an event of ${figure(bytes)} bytes, ${figure(digestUs / shaUs, 1)} times a SHA-256 of them (${figure(shaUs, 2)} µs)`,
      )
      for (const [what, [shorter = 1, longer = 1]] of Object.entries(peaks))
        print(
          `peak memory of ${what} of the longer log compared with the shorter: ${figure(longer / shorter, 2)} (at most ${maxPeakRatio})`,
        )
    }),
}

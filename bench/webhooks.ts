import { type ChildProcess, execFile, fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { installPeers } from './append/peers.ts'
import type { SendJob } from './webhooks/contender.ts'
import { benchEnqueue } from './webhooks/enqueue.ts'
import { benchFanOut } from './webhooks/fan-out.ts'
import type { Counted } from './webhooks/receiver.ts'

export type WebhookBenchOptions = {
  /** A Postgres where databases may be made. */
  readonly url: string
  readonly print: (line: string) => void
  /** Deliveries of a run; default 10,000. */
  readonly deliveries?: number
  /** Endpoints that a notice goes to; default 100,000. */
  readonly fanOut?: number
}

/** A run that takes longer is ended and told by what arrived. */
const maxRunMs = 60_000
const concurrency = 64
const endpoints = 200

const contenders = [
  { name: 'farebox', module: './webhooks/ours.ts' },
  { name: 'graphile-worker', module: './webhooks/graphile.ts' },
] as const

const withDatabase = async <Value>(
  url: string,
  use: (database: string) => Promise<Value>,
): Promise<Value> => {
  const name = `webhooks_${randomBytes(4).toString('hex')}`
  const admin = new pg.Client({ connectionString: url })
  await admin.connect()
  try {
    await admin.query(`create database ${name}`)
    const database = new URL(url)
    database.pathname = `/${name}`
    const value = await use(database.toString())
    await admin.query(`drop database ${name} with (force)`)
    return value
  } finally {
    await admin.end()
  }
}

const ask = async (receiver: ChildProcess, question: 'count' | 'forget'): Promise<Counted> => {
  const answer = once(receiver, 'message')
  receiver.send(question)
  return ((await answer) as [Counted])[0]
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Sends everything and counts at the receiver until all that can arrive has, or the time is over. */
const runSender = async (receiver: ChildProcess, module: string, job: SendJob): Promise<Counted> => {
  await ask(receiver, 'forget')
  const child = fork(new URL(module, import.meta.url), { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  const failed = once(child, 'exit').then(() => Promise.reject(new Error(`${module} ended by itself`)))
  failed.catch(() => undefined)
  try {
    const ready = once(child, 'message')
    child.send({ job })
    await Promise.race([ready, failed])
    child.send('go')
    const expected = job.deliveries - Math.floor((job.deliveries * job.hanging) / job.endpoints)
    const endMs = performance.now() + maxRunMs
    for (;;) {
      await pause(100)
      const counted = await ask(receiver, 'count')
      if (counted.distinct >= expected || performance.now() > endMs) return counted
    }
  } finally {
    child.kill('SIGKILL')
  }
}

/**
 * Deliveries a second over TLS, counted by the receiver: ours beside graphile-worker with the same signed request, the
 * same number at once, each delivery durable before it is sent and its end durable after; all receivers fast, then 1 % of
 * the endpoints hanging. Then what enqueueing costs an order.
 */
export const benchWebhooks = async (options: WebhookBenchOptions): Promise<void> => {
  const { url, print, deliveries = 10_000 } = options
  const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-tls-'))
  const [keyFile, certFile] = [join(directory, 'key.pem'), join(directory, 'cert.pem')]
  const subject = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1']
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
  await promisify(execFile)('openssl', [
    'req',
    '-x509',
    ...kind,
    ...subject,
    '-keyout',
    keyFile,
    '-out',
    certFile,
  ])
  const ca = await readFile(certFile, 'utf8')
  const receiver = fork(new URL('./webhooks/receiver.ts', import.meta.url), [keyFile, certFile])
  const [{ port }] = (await once(receiver, 'message')) as [Counted]
  let chosen: readonly (typeof contenders)[number][] = contenders
  try {
    await installPeers()
  } catch (error) {
    print(`graphile-worker is left out, it cannot be installed: ${(error as Error).message}`)
    chosen = contenders.slice(0, 1)
  }
  try {
    print(
      `webhooks over TLS, ${endpoints} endpoints, ${concurrency} attempts at once, ${deliveries} deliveries:`,
    )
    for (const hanging of [0, endpoints / 100]) {
      let ours = 0
      for (const { name, module } of chosen) {
        const counted = await withDatabase(url, (databaseUrl) =>
          runSender(receiver, module, { databaseUrl, port, ca, deliveries, endpoints, hanging, concurrency }),
        )
        const perSecond = (counted.distinct / Math.max(1, counted.elapsedMs)) * 1000
        if (name === 'farebox') ours = perSecond
        const ratio = name === 'farebox' ? '' : `, farebox is ${(ours / perSecond).toFixed(2)} times that`
        print(
          `  ${name.padEnd(16)} ${hanging === 0 ? 'all fast   ' : '1 % hanging'} ${perSecond.toFixed(0).padStart(6)} /s` +
            `  (${counted.distinct} of ${deliveries} arrived in ${(counted.elapsedMs / 1000).toFixed(1)} s, ${counted.requests} requests, ${counted.hanging} hung)${ratio}`,
        )
      }
    }
    await withDatabase(url, (databaseUrl) => benchEnqueue({ databaseUrl, print }))
    await withDatabase(url, (databaseUrl) =>
      benchFanOut({ databaseUrl, print, endpoints: options.fanOut ?? 100_000 }),
    )
  } finally {
    receiver.disconnect()
    await rm(directory, { recursive: true, force: true })
  }
}

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { stepsOf } from '../src/cli/progress-bar.ts'
import { installPeers } from './append/peers.ts'
import type { Bench } from './bench.ts'
import { withDatabase, withLog } from './database.ts'
import type { SendJob } from './webhooks/contender.ts'
import { benchEnqueue } from './webhooks/enqueue.ts'
import { benchFanOut } from './webhooks/fan-out.ts'
import type { Counted } from './webhooks/receiver.ts'
import { type Receiving, startReceiving } from './webhooks/receiving.ts'

/** A run that takes longer is ended and told by what arrived. */
const maxRunMs = 60_000
const concurrency = 64
const endpoints = 200

const contenders = [
  { name: 'farebox', module: './webhooks/ours.ts' },
  { name: 'graphile-worker', module: './webhooks/graphile.ts' },
] as const

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Sends everything and counts at the receiver until all that can arrive has, or the time is over. */
const runSender = async (
  receiver: Receiving,
  module: string,
  job: SendJob,
  onArrived: (distinct: number) => void,
): Promise<Counted> => {
  await receiver.forget()
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
      const counted = await receiver.count()
      onArrived(counted.distinct)
      if (counted.distinct >= expected || performance.now() > endMs) return counted
    }
  } finally {
    child.kill('SIGKILL')
  }
}

const withPeer = async (print: (line: string) => void): Promise<readonly (typeof contenders)[number][]> => {
  try {
    await installPeers()
    return contenders
  } catch (error) {
    print(`graphile-worker is left out, it cannot be installed: ${(error as Error).message}`)
    return contenders.slice(0, 1)
  }
}

/**
 * Deliveries a second over TLS, counted by the receiver: ours beside graphile-worker with the same signed request, the
 * same number at once, each delivery durable before it is sent and its end durable after; all receivers fast, then 1 % of
 * the endpoints hanging. Then what enqueueing costs an order.
 */
export const webhooks: Bench = {
  name: 'webhooks',
  what: 'deliveries a second over TLS beside graphile-worker; what enqueueing costs orders, beside none',
  run: async ({ url, print, bar, sizes: { deliveries } }) => {
    const receiver = await startReceiving()
    try {
      const { port } = receiver
      const ca = await readFile(receiver.certFile, 'utf8')
      const chosen = await withPeer(print)
      print(
        `webhooks over TLS, ${endpoints} endpoints, ${concurrency} attempts at once, ${deliveries} deliveries:`,
      )
      for (const hanging of [0, endpoints / 100]) {
        let ours = 0
        for (const { name, module } of chosen) {
          const step = stepsOf(bar, `${name}, ${hanging} hanging`, deliveries, 'deliveries')
          const counted = await withDatabase(url, (databaseUrl) =>
            runSender(
              receiver,
              module,
              { databaseUrl, port, ca, deliveries, endpoints, hanging, concurrency },
              (distinct) => step(distinct, distinct),
            ),
          )
          bar.end()
          const perSecond = (counted.distinct / Math.max(1, counted.elapsedMs)) * 1000
          if (name === 'farebox') ours = perSecond
          const ratio = name === 'farebox' ? '' : `, farebox is ${(ours / perSecond).toFixed(2)} times that`
          print(
            `  ${name.padEnd(16)} ${hanging === 0 ? 'all fast   ' : '1 % hanging'} ${perSecond.toFixed(0).padStart(6)} /s` +
              `  (${counted.distinct} of ${deliveries} arrived in ${(counted.elapsedMs / 1000).toFixed(1)} s, ${counted.requests} requests, ${counted.hanging} hung)${ratio}`,
          )
        }
      }
      await withLog(url, (place) => benchEnqueue(place, 2 * deliveries, print))
    } finally {
      await receiver.stop()
    }
  },
}

/** What orders feel of a notice to many endpoints. */
export const fanOut: Bench = {
  name: 'fan-out',
  what: 'the p99 of orders while a notice reaches many endpoints, beside what it is without',
  run: async ({ url, print, bar, sizes: { endpoints: targets } }) => {
    const receiver = await startReceiving()
    try {
      await withDatabase(url, (databaseUrl) =>
        benchFanOut({ databaseUrl, endpoints: targets, receiver, print, bar }),
      )
    } finally {
      await receiver.stop()
    }
  },
}

import { readFile } from 'node:fs/promises'
import { stepsOf } from '../src/platform/cli/progress-bar.ts'
import { installPeers } from './append/peers.ts'
import type { Bench } from './bench.ts'
import { withDatabase, withLog } from './database.ts'
import { benchEnqueue } from './webhooks/enqueue.ts'
import { benchFanOut } from './webhooks/fan-out.ts'
import { startReceiving } from './webhooks/receiving.ts'
import { type Turn, takeTurn } from './webhooks/turn.ts'

const concurrency = 64
const endpoints = 200
/** Turns of each; they alternate, so that a machine that slows down slows both. */
const rounds = 3

const contenders = [
  { name: 'farebox', module: './ours.ts' },
  { name: 'graphile-worker', module: './graphile.ts' },
] as const
type Contender = (typeof contenders)[number]

const withPeer = async (print: (line: string) => void): Promise<readonly Contender[]> => {
  try {
    await installPeers()
    return contenders
  } catch (error) {
    print(`graphile-worker is left out, it cannot be installed: ${(error as Error).message}`)
    return contenders.slice(0, 1)
  }
}

const medianOf = (turns: readonly Turn[], pick: (turn: Turn) => number): number =>
  turns.map(pick).sort((a, b) => a - b)[Math.floor(turns.length / 2)]!

/** The turns of each contender, one after the other in alternation. */
const alternate = async (
  chosen: readonly Contender[],
  turnOf: (contender: Contender, round: number) => Promise<Turn>,
): Promise<ReadonlyMap<Contender['name'], readonly Turn[]>> => {
  const turns = new Map(chosen.map(({ name }) => [name, [] as Turn[]]))
  for (let round = 1; round <= rounds; round++)
    for (const contender of chosen) turns.get(contender.name)!.push(await turnOf(contender, round))
  return turns
}

const lineOf = (name: string, row: string, turns: readonly Turn[]): string => {
  const rates = turns.map(({ perSecond }) => perSecond.toFixed(0)).join(', ')
  const arrived = turns.map(({ counted: { distinct, requests } }) => `${distinct} by ${requests}`).join(', ')
  return (
    `  ${name.padEnd(16)} ${row} ${medianOf(turns, ({ perSecond }) => perSecond)
      .toFixed(0)
      .padStart(6)} /s` +
    `, processor time ${medianOf(turns, ({ nodeMicros }) => nodeMicros).toFixed(0)} µs a delivery + Postgres ${medianOf(turns, ({ postgresMicros }) => postgresMicros).toFixed(0)} µs` +
    `  (${rates}; arrived ${arrived} requests)`
  )
}

/**
 * Deliveries a second over TLS, counted by the receiver: ours and graphile-worker with the same signed request, the
 * same number at once, each delivery durable before it is sent and its end durable after; all receivers fast, then 1 % of
 * the endpoints hanging. Each turn is a fresh process and database whose first half as many deliveries are not counted.
 * Then what enqueueing costs an order.
 */
export const webhooks: Bench = {
  name: 'webhooks',
  what: 'deliveries a second over TLS compared with graphile-worker; the cost of enqueueing for orders',
  run: async ({ url, print, bar, sizes: { deliveries } }) => {
    const receiver = await startReceiving()
    const warmUp = Math.ceil(deliveries / 2)
    try {
      const { port } = receiver
      const ca = await readFile(receiver.certFile, 'utf8')
      const chosen = await withPeer(print)
      print(
        `webhooks over TLS, ${endpoints} endpoints, ${concurrency} attempts at once, ${deliveries} deliveries after ${warmUp} to warm up; medians of ${rounds} turns that alternate:`,
      )
      for (const hanging of [0, endpoints / 100]) {
        const row = hanging === 0 ? 'all fast   ' : '1 % hanging'
        const turns = await alternate(chosen, ({ name, module }, round) =>
          withDatabase(url, async (databaseUrl) => {
            const all = warmUp + deliveries
            const step = stepsOf(bar, `${name}, ${hanging} hanging, turn ${round}`, all, 'deliveries')
            const job = { databaseUrl, port, ca, deliveries: all, endpoints, hanging, concurrency }
            const turn = await takeTurn(receiver, module, job, warmUp, (distinct) => step(distinct, distinct))
            bar.end()
            return turn
          }),
        )
        for (const [name, ofOne] of turns) print(lineOf(name, row, ofOne))
        const [ours = 0, peer] = [...turns.values()].map((ofOne) =>
          medianOf(ofOne, ({ perSecond }) => perSecond),
        )
        if (peer !== undefined)
          print(`  farebox is ${(ours / peer).toFixed(2)} times graphile-worker, ${row.trim()}`)
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
  what: 'the p99 of orders while a notice reaches many endpoints, compared with that without a notice',
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

import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { allMigrations } from '../src/app/migrations.ts'
import { sealKeyOf } from '../src/audit/seals/seals-file.ts'
import { createSignatureCheck } from '../src/audit/signatures/check-signatures.ts'
import { createBatchSigner } from '../src/audit/signatures/signer.ts'
import { followSealingKey } from '../src/audit/signatures/signing-keys.ts'
import { newEventId } from '../src/kernel/ids.ts'
import type { StreamName } from '../src/kernel/streams.ts'
import { stepsOf } from '../src/platform/cli/progress-bar.ts'
import type { AppendItem, EventLog, StoredEvent } from '../src/platform/eventstore/port.ts'
import { openPostgresLog } from '../src/platform/eventstore/postgres/log.ts'
import { migrate } from '../src/platform/postgres/migrate.ts'
import { clientConfig, createPool } from '../src/platform/postgres/pool.ts'
import { sampleData, sampleMetadata } from './append/contender.ts'
import { type Bench, figure } from './bench.ts'
import { withDatabase } from './database.ts'
import { cpuSpent } from './process-cpu.ts'

const sizes = [1, 8, 32] as const
const rounds = 6
const itemsEach = 4_000

const data = JSON.stringify(sampleData)
const metadata = JSON.stringify(sampleMetadata)

/** As an order is written: one event at the end of a stream of its own. */
const order = (): AppendItem => ({
  appends: [
    {
      stream: `order-${randomUUID()}` as StreamName,
      expected: 'noStream',
      events: [{ id: newEventId(), type: 'WalletDebited', data, metadata }],
    },
  ],
})

const appendAll = async (log: EventLog, batch: number): Promise<void> => {
  for (let written = 0; written < itemsEach; written += batch)
    await log.appendAll(Array.from({ length: batch }, order))
}

/** Processor time of this process and of Postgres, microseconds an order. */
const costOf = async (pool: pg.Pool, work: () => Promise<void>, orders = itemsEach) => {
  const before = await cpuSpent(process.pid, pool)
  await work()
  const after = await cpuSpent(process.pid, pool)
  return { node: (after.node - before.node) / orders, postgres: (after.postgres - before.postgres) / orders }
}

const checkAll = async (pool: pg.Pool, log: EventLog, publicKey: string): Promise<number> => {
  const check = createSignatureCheck({
    pool,
    logId: await log.logId(),
    sealingKey: followSealingKey(publicKey),
    onUnsigned: (_, problem) => {
      throw new Error(problem)
    },
  })
  let ordinal = 1
  for (let page: readonly StoredEvent[] = await log.readAll(0, 4_000); page.length > 0; ) {
    await check.take(page, ordinal)
    ordinal += page.length
    page = await log.readAll(page.at(-1)!.position, 4_000)
  }
  await check.end()
  return ordinal - 1
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!

/** The cost for an order of signing each batch, in turns with unsigned batches, and of checking the signatures. */
export const signing: Bench = {
  name: 'signing',
  what: 'the cost for an order of signing the batches and checking them',
  run: async ({ url, print, bar }) => {
    const step = stepsOf(bar, 'signing', sizes.length * rounds, 'rounds')
    let done = 0
    for (const batch of sizes)
      await withDatabase(url, async (own) => {
        const settings = { url: own, applicationName: 'farebox-bench' }
        const pool = createPool(settings)
        await migrate(pool, allMigrations)
        const key = sealKeyOf(Buffer.alloc(32, 7))
        const signer = createBatchSigner({ pool, sealKey: key, clock: Date.now, role: 'bench' })
        const connection = clientConfig(settings)
        const plain = openPostgresLog({ pool, connection })
        const signed = openPostgresLog({ pool, connection, signer })
        try {
          await appendAll(plain, batch)
          const costs = { plain: [] as number[], signed: [] as number[] }
          for (let round = 0; round < rounds; round += 1) {
            step(done, done)
            done += 1
            for (const name of ['plain', 'signed'] as const) {
              const log = name === 'plain' ? plain : signed
              const { node, postgres } = await costOf(pool, () => appendAll(log, batch))
              costs[name].push(node + postgres)
            }
          }
          const [without, withIt] = [median(costs.plain), median(costs.signed)]
          print(
            `${String(batch).padStart(2)} orders a batch: ${figure(without, 1)} µs an order unsigned, ${figure(withIt, 1)} signed, ${figure(withIt - without, 1)} more`,
          )
        } finally {
          await Promise.all([plain.close(), signed.close()])
          await pool.end()
        }
      })
    await withDatabase(url, async (own) => {
      const settings = { url: own, applicationName: 'farebox-bench' }
      const pool = createPool(settings)
      await migrate(pool, allMigrations)
      const key = sealKeyOf(Buffer.alloc(32, 7))
      const signer = createBatchSigner({ pool, sealKey: key, clock: Date.now, role: 'bench' })
      const log = openPostgresLog({ pool, connection: clientConfig(settings), signer })
      try {
        for (const batch of sizes) await appendAll(log, batch)
        let events = 0
        const cost = await costOf(
          pool,
          async () => {
            events = await checkAll(pool, log, key.publicKey)
          },
          3 * itemsEach,
        )
        print(
          `checking ${figure(events)} events of those batches: ${figure(cost.node, 1)} µs an event here, ${figure(cost.postgres, 1)} in Postgres, reading them included`,
        )
      } finally {
        await log.close()
        await pool.end()
      }
    })
  },
}

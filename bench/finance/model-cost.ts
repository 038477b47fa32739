import { createCodec } from '../../src/platform/eventstore/codec.ts'
import { openSession } from '../../src/platform/postgres/postgres-session.ts'
import { createIndexSql, createTableSql } from '../../src/platform/projections/definition.ts'
import { foldBatch } from '../../src/platform/projections/fold-batch.ts'
import type { ReadModel } from '../../src/platform/projections/read-model.ts'
import { createRowCache } from '../../src/platform/projections/row-cache.ts'
import { createBatchWriter } from '../../src/platform/projections/write-batch.ts'
import { cpuMs, figure } from '../bench.ts'
import type { BenchLog } from '../database.ts'
import { backendCpuMs } from './backend-cpu.ts'

/**
 * Folds the whole log into a read model as a server does, and gives its cost for an order: processor time of this process for
 * folding and sending, compared with reading and decoding the log (which all groups share), and of its Postgres backend.
 * Gives the orders in the log.
 */
export const costOfModel = async (
  { pool, log }: BenchLog,
  { model, batchEvents }: { readonly model: ReadModel; readonly batchEvents: number },
  print: (line: string) => void,
): Promise<number> => {
  const sessionName = `farebox bench ${model.name}`
  const session = await openSession(pool, sessionName)
  try {
    for (const table of model.tables) {
      await session.client.query(createTableSql('read', table))
      for (const sql of createIndexSql('read', table)) await session.client.query(sql)
    }
    const { decode } = createCodec()
    const writer = createBatchWriter(session.client, 'read')
    const cache = createRowCache({ maxRows: 20_000, complete: false })
    let orders = 0
    let readMs = 0
    let foldMs = 0
    let sendMs = 0
    const before = (await backendCpuMs(pool, sessionName)) ?? 0
    for (let after = 0; ; ) {
      const beginMs = cpuMs()
      const page = await log.readAll(after, batchEvents)
      if (page.length === 0) break
      after = page.at(-1)?.position ?? after
      const events = page.map(decode)
      orders += events.filter(({ type }) => type === 'WalletDebited').length
      const startMs = cpuMs()
      const changes = await foldBatch({ models: [model], events, cache, load: writer.load })
      const foldedMs = cpuMs()
      await writer.write(changes.tables, null)
      changes.commit()
      readMs += startMs - beginMs
      foldMs += foldedMs - startMs
      sendMs += cpuMs() - foldedMs
    }
    const backend = (await backendCpuMs(pool, sessionName)) ?? Number.NaN
    const micros = (ms: number): string => `${figure((ms * 1000) / orders, 1)} µs`
    print(
      `${model.name}: ${figure(orders)} orders, processor time an order: fold ${micros(foldMs)}, send ${micros(sendMs)}, Postgres ${micros(backend - before)}; both ${figure((foldMs + sendMs) / readMs, 2)} times what reading and decoding its events takes (${micros(readMs)})`,
    )
    return orders
  } finally {
    await session.close()
  }
}

import { randomUUID } from 'node:crypto'
import { allMigrations } from '../../src/app/migrations.ts'
import { newEventId } from '../../src/kernel/ids.ts'
import type { StreamName } from '../../src/kernel/streams.ts'
import { openPostgresLog } from '../../src/platform/eventstore/postgres/log.ts'
import { migrate } from '../../src/platform/postgres/migrate.ts'
import { clientConfig, createPool } from '../../src/platform/postgres/pool.ts'
import { type Contender, sampleData, sampleMetadata } from './contender.ts'

export const farebox: Contender = {
  name: 'farebox',
  open: async (url) => {
    const settings = { url, applicationName: 'farebox-bench' }
    const pool = createPool(settings)
    await migrate(pool, allMigrations)
    const log = openPostgresLog({ pool, connection: clientConfig(settings) })
    const run = randomUUID()
    return {
      append: async (writer, n) => {
        const event = {
          id: newEventId(),
          type: 'WalletDebited',
          data: JSON.stringify(sampleData),
          metadata: JSON.stringify(sampleMetadata),
        }
        await log.append(`order-${run}-${writer}` as StreamName, n === 0 ? 'noStream' : n - 1, [event])
      },
      close: async () => {
        await log.close()
        await pool.end()
      },
    }
  },
}

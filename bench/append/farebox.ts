import { randomUUID } from 'node:crypto'
import { openPostgresLog } from '../../src/eventstore/postgres/log.ts'
import type { StreamName } from '../../src/eventstore/streams.ts'
import { newEventId } from '../../src/ids.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { allMigrations } from '../../src/postgres/migrations.ts'
import { clientConfig, createPool } from '../../src/postgres/pool.ts'
import { type Contender, sampleData, sampleMetadata } from './contender.ts'

export const farebox: Contender = {
  name: 'farebox',
  open: async (url) => {
    const settings = { url, applicationName: 'farebox-bench' }
    const pool = createPool(settings)
    await migrate(pool, allMigrations)
    const log = await openPostgresLog({ pool, connection: clientConfig(settings) })
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

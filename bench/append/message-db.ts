import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import pg from 'pg'
import { newEventId } from '../../src/kernel/ids.ts'
import { type Contender, sampleData, sampleMetadata } from './contender.ts'
import { peerDirectory } from './peers.ts'

/** The order of its own install scripts. Its extension pgcrypto is only needed below Postgres 13. */
const files = [
  'schema/message-store',
  'tables/messages',
  'types/message',
  ...['hash-64', 'category', 'is-category', 'id', 'cardinal-id', 'acquire-lock', 'stream-version'].map(
    (name) => `functions/${name}`,
  ),
  'functions/write-message',
  ...['messages-id', 'messages-stream', 'messages-category'].map((name) => `indexes/${name}`),
]

/**
 * message-db through its own function. All streams are of one category, as wallets or orders would be; it locks the
 * category. More connections than 32 made it slower.
 */
export const messageDb: Contender = {
  name: 'message-db',
  open: async (url) => {
    const directory = `${peerDirectory}node_modules/@eventide/message-db/database`
    const options = '-c search_path=message_store,public -c client_min_messages=warning'
    const pool = new pg.Pool({ connectionString: url, options, max: 32 })
    // A pool that ended may still have sessions on the server when the database is dropped.
    pool.on('error', () => undefined)
    for (const file of files) await pool.query(await readFile(`${directory}/${file}.sql`, 'utf8'))
    const run = randomUUID().replaceAll('-', '')
    const text = 'select write_message($1, $2, $3, $4::jsonb, $5::jsonb, $6::bigint)'
    return {
      append: async (writer, n) => {
        const data = JSON.stringify(sampleData)
        const metadata = JSON.stringify(sampleMetadata)
        const values = [newEventId(), `order-${run}${writer}`, 'WalletDebited', data, metadata, n - 1]
        await pool.query({ name: 'write', text, values })
      },
      close: () => pool.end(),
    }
  },
}

import { randomUUID } from 'node:crypto'
import { createRequire } from 'node:module'
import { type Contender, sampleData, sampleMetadata } from './contender.ts'
import { peerDirectory } from './peers.ts'

/** The part of `@event-driven-io/emmett-postgresql` 0.42.0 that is used here. */
type Emmett = {
  getPostgreSQLEventStore(url: string): {
    readonly schema: { migrate(): Promise<unknown> }
    appendToStream(
      stream: string,
      events: readonly { readonly type: string; readonly data: unknown; readonly metadata: unknown }[],
      options: { readonly expectedStreamVersion: bigint | 'STREAM_DOES_NOT_EXIST' },
    ): Promise<unknown>
    close(): Promise<void>
  }
}

/** Emmett with its own pool, as its documentation opens it. */
export const emmett: Contender = {
  name: 'emmett',
  open: async (url) => {
    const { getPostgreSQLEventStore } = createRequire(peerDirectory)(
      '@event-driven-io/emmett-postgresql',
    ) as Emmett
    const store = getPostgreSQLEventStore(url)
    await store.schema.migrate()
    const run = randomUUID()
    return {
      append: async (writer, n) => {
        const expectedStreamVersion = n === 0 ? 'STREAM_DOES_NOT_EXIST' : BigInt(n)
        const event = { type: 'WalletDebited', data: sampleData, metadata: sampleMetadata }
        await store.appendToStream(`order-${run}-${writer}`, [event], { expectedStreamVersion })
      },
      close: () => store.close(),
    }
  },
}

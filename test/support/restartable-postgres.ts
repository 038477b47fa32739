import type { TestContext } from 'node:test'
import { startEmbeddedPostgres } from '../../src/platform/postgres/embedded.ts'
import { atEnd } from './cleanup.ts'
import { dataDirectory } from './farebox.ts'
import { tcpProxy } from './tcp-proxy.ts'

export type RestartablePostgres = {
  /** Stays the same over restarts. */
  readonly url: string
  /** Ends Postgres without any warning, as a crash does, and starts it again on its data. */
  restart(): Promise<void>
}

/** A Postgres of the test's own, empty, behind an address that stays. */
export const restartablePostgres = async (t: TestContext): Promise<RestartablePostgres> => {
  const dataDir = await dataDirectory(t)
  // Tests end processes, never the machine: so no `fsync` here.
  const start = () =>
    startEmbeddedPostgres({ dataDir, role: 'test', settings: { fsync: 'off', min_wal_size: '80MB' } })
  let server = await start()
  atEnd(t, () => server.stop())
  const front = await tcpProxy(t, server.ownerUrl)
  return {
    url: front.url,
    restart: async () => {
      process.kill(server.pid, 'SIGQUIT')
      await server.failed
      await front.refuse()
      await server.stop()
      server = await start()
      front.lead(server.ownerUrl)
      await front.accept()
    },
  }
}

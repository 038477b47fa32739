import { mkdtemp, readdir, realpath, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DataInUse, lockData } from '../../src/postgres/data-lock.ts'
import { startEmbeddedPostgres } from '../../src/postgres/embedded.ts'
import { stopOrphan } from '../../src/postgres/orphan.ts'

const prefix = 'farebox-test-postgres-'

/** Younger directories may belong to a run that has made but not yet locked its own. */
const settledMs = 60_000

const clear = async (dataDir: string): Promise<void> => {
  const { mtimeMs } = await stat(dataDir)
  if (Date.now() - mtimeMs < settledMs) return
  const lock = await lockData(dataDir, 'test run')
  await stopOrphan(join(await realpath(dataDir), 'postgres'))
  await lock.release()
  await rm(dataDir, { recursive: true, force: true })
}

/** Removes what killed test runs left: their Postgres, where it runs on, and its data. */
const sweep = async (): Promise<void> => {
  for (const name of await readdir(tmpdir()))
    if (name.startsWith(prefix))
      await clear(join(tmpdir(), name)).catch((error) => {
        if (!(error instanceof DataInUse || error.code === 'ENOENT')) throw error
      })
}

/** A Postgres for tests, in a directory of its own. Tests kill Farebox, never the machine: so no `fsync` here. */
export const startTestServer = async (): Promise<{ url: string; stop(): Promise<void> }> => {
  await sweep()
  const dataDir = await mkdtemp(join(tmpdir(), prefix))
  const server = await startEmbeddedPostgres({
    dataDir,
    role: 'test run',
    settings: { fsync: 'off', full_page_writes: 'off', max_wal_size: '1GB', min_wal_size: '80MB' },
  })
  return {
    url: server.url,
    stop: async () => {
      await server.stop()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

import { mkdtemp, readdir, realpath, rm, stat, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DataInUse, lockData } from '../../src/platform/postgres/data-lock.ts'
import { startEmbeddedPostgres } from '../../src/platform/postgres/embedded.ts'
import { stopOrphan } from '../../src/platform/postgres/orphan.ts'

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
const sweep = async (place: string): Promise<void> => {
  for (const name of await readdir(place))
    if (name.startsWith(prefix))
      await clear(join(place, name)).catch((error) => {
        if (!(error instanceof DataInUse || error.code === 'ENOENT')) throw error
      })
}

const memory = '/dev/shm'
/** `TMPFS_MAGIC` of statfs(2). */
const tmpfs = 0x01021994
/** Many times what a run was seen to put down, 200 MB, and the write-ahead log that a soak fills. */
const roomBytes = 8 * 2 ** 30

/**
 * Linux's file system in memory, where there is room in it: a test's database is some thousand files, which are made and
 * removed in 30 ms there and in 180 on a disk.
 */
const placeOfData = async (): Promise<string> => {
  const found = await statfs(memory).catch(() => null)
  return found?.type === tmpfs && found.bavail * found.bsize >= roomBytes ? memory : tmpdir()
}

/** A Postgres for tests, in a directory of its own. Tests kill Farebox, never the machine: so no `fsync` here. */
export const startTestServer = async (): Promise<{ url: string; stop(): Promise<void> }> => {
  const place = await placeOfData()
  for (const each of new Set([place, tmpdir()])) await sweep(each)
  const dataDir = await mkdtemp(join(place, prefix))
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

import { mkdtemp, readdir, readFile, realpath, rm, stat, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { DataInUse, lockData } from '../../src/platform/postgres/data-lock.ts'
import { startEmbeddedPostgres } from '../../src/platform/postgres/embedded.ts'
import { StartRefused } from '../../src/platform/postgres/errors.ts'
import { stopOrphan } from '../../src/platform/postgres/postmaster.ts'

const prefix = 'farebox-test-postgres-'
/** Data folders of single tests, and the one that a run copies them from. */
export const dataPrefix = 'farebox-data-'
const usedPrefix = 'farebox-test-used-'

const minuteMs = 60_000
/**
 * The unused folders, if no process locks them. Those of a Postgres may exist before they are locked; those
 * of a test are free between two starts.
 */
const freeAfterMs: Readonly<Record<string, number>> = {
  [prefix]: minuteMs,
  [dataPrefix]: 180 * minuteMs,
  [usedPrefix]: 180 * minuteMs,
}

const clear = async (dataDir: string, afterMs: number): Promise<void> => {
  const { mtimeMs } = await stat(dataDir)
  if (Date.now() - mtimeMs < afterMs) return
  // Tests damage locks on purpose: a folder that cannot be locked is unused.
  const lock = await lockData(dataDir, 'test run').catch((error) => {
    if (error instanceof StartRefused) return null
    throw error
  })
  await stopOrphan(join(await realpath(dataDir), 'postgres'))
  await lock?.release()
  await rm(dataDir, { recursive: true, force: true })
}

/** Removes what killed test runs left: their Postgres, where it runs on, and its data. */
const sweep = async (place: string): Promise<void> => {
  for (const name of await readdir(place))
    for (const [start, afterMs] of Object.entries(freeAfterMs))
      if (name.startsWith(start))
        await clear(join(place, name), afterMs).catch((error) => {
          if (!(error instanceof DataInUse || error.code === 'ENOENT')) throw error
        })
}

const memory = '/dev/shm'
/** `TMPFS_MAGIC` of statfs(2). */
const tmpfs = 0x01021994
/** Many times the observed 200 MB of a run, and the write-ahead log of a soak. */
const roomBytes = 8 * 2 ** 30

/**
 * Linux's file system in memory, if it has space: a test's database is some thousand files, which are created
 * and removed in 30 ms there and in 180 on a disk.
 */
export const placeOfData = async (): Promise<string> => {
  const found = await statfs(memory).catch(() => null)
  return found?.type === tmpfs && found.bavail * found.bsize >= roomBytes ? memory : tmpdir()
}

/** Holds the address of the Postgres that `npm run dev:db` runs. */
export const sharedServerFile = join(import.meta.dirname, '../../node_modules/.cache/farebox-test-database')

/** The address of the Postgres that `npm run dev:db` runs; undefined without one. */
export const sharedServer = async (): Promise<string | undefined> => {
  const url = await readFile(sharedServerFile, 'utf8').catch(() => undefined)
  const client = new pg.Client({ connectionString: url })
  const isRunning =
    url !== undefined &&
    (await client.connect().then(
      () => true,
      () => false,
    ))
  await client.end()
  return isRunning ? url : undefined
}

/** The database that test/support/seeded.ts fills once in a run. */
export const seededTemplateOf = (run: string): string => `farebox_seeded_${run}`

/**
 * Marks a run as active on a server by a lock, and drops the templates of ended runs. A template with connections stays.
 * @returns ends the mark and drops the run's own template
 */
export const startRun = async (url: string, run: string): Promise<() => Promise<void>> => {
  const admin = new pg.Client({ connectionString: url })
  await admin.connect()
  await admin.query('select pg_advisory_lock(hashtext($1))', [run])
  const { rows } = await admin.query<{ name: string }>(
    `select d.datname as name from pg_database d
     where d.datname like 'farebox\\_seeded\\_%'
       and not exists (select from pg_stat_activity a where a.datname = d.datname)
       and pg_try_advisory_lock(hashtext(split_part(d.datname, '_', 3)))`,
  )
  for (const { name } of rows) await admin.query(`drop database if exists ${name}`)
  return async () => {
    for (const name of [seededTemplateOf(run), `${seededTemplateOf(run)}_half`])
      await admin.query(`drop database if exists ${name} with (force)`)
    await admin.end()
  }
}

/** Where a run keeps the data folder that test/support/used-folder.ts copies. */
export const usedFolderOf = async (run: string): Promise<string> =>
  join(await placeOfData(), `${usedPrefix}${run}`)

/**
 * A Postgres for tests, in its own directory. `fsync` costs nothing in memory, and `ledger verify` reports a
 * server without it.
 */
export const startTestServer = async (): Promise<{ url: string; stop(): Promise<void> }> => {
  const place = await placeOfData()
  for (const each of new Set([place, tmpdir()])) await sweep(each)
  const dataDir = await mkdtemp(join(place, prefix))
  const server = await startEmbeddedPostgres({
    dataDir,
    role: 'test run',
    // A test of a test run starts the workers of that run, too.
    settings: { max_wal_size: '1GB', min_wal_size: '80MB', max_connections: '600' },
  })
  return {
    url: server.ownerUrl,
    stop: async () => {
      await server.stop()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

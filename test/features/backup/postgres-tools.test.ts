import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { call, dataDirectory, startFarebox } from '../../support/farebox.ts'
import { operate } from '../../support/operator.ts'
import { until } from '../../support/until.ts'
import { type Cluster, embeddedPrograms, installedPostgres, startCluster } from './cluster.ts'
import { order, type Placed, startLoad } from './load.ts'

const page = readFileSync(join(import.meta.dirname, '../../../docs/operations/backup-and-restore.md'), 'utf8')
const section = page.slice(page.indexOf('## Your own Postgres'), page.indexOf('## EventStoreDB'))

/** The block of the backup page that begins with these words. */
const block = (beginning: string): string => {
  const found = [...section.matchAll(/^```(?:sh|ini)\n([\s\S]*?)^```$/gm)].map(([, text = '']) => text)
  const one = found.find((text) => text.startsWith(beginning))
  assert.ok(one, `a block of docs/operations/backup-and-restore.md begins with ${beginning}`)
  return one
}

const archived = (directory: string): string =>
  block('archive_mode').replaceAll('/archive/', `${directory}/archive/`)

/** A service on a cluster, whose demo buyer has money for a load. */
const startOn = async (
  t: TestContext,
  { url }: Cluster,
  addresses: Readonly<Record<string, string>> = { DATABASE_URL: url },
) => {
  const env = {
    DATABASE_URL: url,
    ...addresses,
    FAREBOX_DATA: await dataDirectory(t),
    FAREBOX_DEMO: 'on',
    FAREBOX_RATE_LIMIT: 'off',
    FAREBOX_MASTER_KEY: randomBytes(32).toString('base64'),
    FAREBOX_SEAL_KEY: randomBytes(32).toString('base64'),
  }
  const server = await startFarebox(t, env)
  const { buyer } = JSON.parse(await readFile(join(env.FAREBOX_DATA, 'demo.json'), 'utf8'))
  const credit = [
    'wallet',
    'credit',
    '--kind=payment',
    '--account',
    buyer.accountId,
    '--cents',
    '90000000',
    '--reference',
    'load',
  ]
  assert.equal((await operate(credit, env)).code, 0)
  return { env, server, key: buyer.key as string }
}

type Started = Awaited<ReturnType<typeof startOn>>

/**
 * The restored database passes verification, has the earlier answers and not the later ones, and accepts an
 * order.
 */
const goesOn = async (
  t: TestContext,
  { env, key }: Started,
  url: string,
  { known, unknown }: { readonly known: readonly Placed[]; readonly unknown: readonly Placed[] },
): Promise<void> => {
  const restored = { ...env, DATABASE_URL: url }
  const server = await startFarebox(t, restored)
  assert.equal((await operate(['ledger', 'seal'], restored)).code, 0)
  const verified = await operate(['ledger', 'verify', '--json'], restored)
  assert.equal(verified.code, 0, `${verified.out}${verified.err}`)
  for (const { key: idempotencyKey, orderId } of known) {
    const again = await order(server.baseUrl, key, idempotencyKey)
    assert.deepEqual([again.status, again.body.orderId], [200, orderId])
  }
  for (const { orderId } of unknown)
    assert.equal((await call(`${server.baseUrl}/api/v1/orders/${orderId}`, key)).status, 404)
  const wallet = (await call(`${server.baseUrl}/api/v1/wallet`, key)).body.balanceCents
  const next = await order(server.baseUrl, key, randomUUID())
  assert.equal(next.status, 201, JSON.stringify(next.body))
  assert.equal(next.body.balanceCents, wallet - next.body.amountCents)
  await server.stop()
}

const noTools =
  'no Postgres with pg_dump, pg_restore and pg_basebackup of its own version is installed, so nothing was checked: apt-get install postgresql'

test('a pg_dump under load is restored by pg_restore into a new database, which passes verification and continues', async (t) => {
  const bin = await installedPostgres()
  if (bin === null) return t.skip(noTools)
  t.diagnostic(`with the tools of ${bin}`)
  const cluster = await startCluster(t, bin, () => '')
  const started = await startOn(t, cluster)
  const load = startLoad(t, started.server.baseUrl, started.key)
  await load.more(20)
  const known = load.placed.slice(-3)
  const [dump = '', restore = ''] = block('pg_dump').trim().split('\n')
  await cluster.sh(dump)
  await load.more(5)
  await load.stop()
  assert.deepEqual(load.failures, [])
  const unknown = load.placed.slice(-1)
  await cluster.sh(restore)
  await goesOn(t, started, cluster.url.replace(/farebox$/, 'new'), { known, unknown })
  await started.server.stop()
})

test('with two roles pg_restore creates a database that both roles can use as before', async (t) => {
  const bin = await installedPostgres()
  if (bin === null) return t.skip(noTools)
  const cluster = await startCluster(t, bin, () => '')
  await cluster.query(
    'create role farebox_service login; create role farebox_owner login in role farebox_service',
  )
  await cluster.query('alter database farebox owner to farebox_owner')
  const as = (url: string, user: string): string => Object.assign(new URL(url), { username: user }).toString()
  const roles = (url: string) => ({
    DATABASE_URL: as(url, 'farebox_service'),
    DATABASE_OWNER_URL: as(url, 'farebox_owner'),
  })
  const started = await startOn(t, cluster, { ...roles(cluster.url), FAREBOX_AUDITOR: 'on' })
  const placed = await order(started.server.baseUrl, started.key, 'before')
  assert.equal(placed.status, 201)
  const [dump = '', restore = ''] = block(
    'pg_dump --format=custom --exclude-schema=\'read_next_*\' --file=farebox.dump "$DATABASE_OWNER_URL"',
  )
    .trim()
    .split('\n')
  await cluster.query('create schema read_next_hot create table unfinished (position bigint)')
  await cluster.sh(`DATABASE_OWNER_URL=${roles(cluster.url).DATABASE_OWNER_URL}; ${dump}`)
  await started.server.stop()
  await cluster.sh(restore)
  const restored = cluster.url.replace(/farebox$/, 'new')
  const both = { ...started, env: { ...started.env, ...roles(restored) } }
  const known = [{ key: 'before', orderId: placed.body.orderId }] as unknown as readonly Placed[]
  await goesOn(t, both, roles(restored).DATABASE_URL, { known, unknown: [] })
  // From then on the service needs no owner.
  const { DATABASE_OWNER_URL: _, ...alone } = both.env
  const rebuilt = await operate(['projections', 'rebuild', 'all'], alone)
  assert.equal(rebuilt.code, 0, rebuilt.err)
  assert.equal((await operate(['ledger', 'seal'], alone)).code, 0)
  const verified = await operate(['ledger', 'verify'], alone)
  assert.equal(verified.code, 0, `${verified.out}${verified.err}`)
})

/** As `pg_basebackup` does, with nothing but SQL and `cp`: the embedded Postgres brings no such program. */
const copyRunning = async ({ url, sh }: Cluster): Promise<void> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query("select pg_backup_start('base', fast => true)")
    // Files that are removed meanwhile are none that a backup needs.
    await sh('cp -R data base || [ -f base/PG_VERSION ]')
    const { rows } = await client.query<{ labelfile: string }>(
      'select labelfile from pg_backup_stop(wait_for_archive => true)',
    )
    await sh('rm -rf base/postmaster.* base/pg_wal/* base/pg_replslot/*; mkdir -p base/pg_wal/archive_status')
    await sh(`cat > base/backup_label <<'END'\n${rows[0]?.labelfile}END`)
  } finally {
    await client.end()
  }
}

const takeBase: Readonly<Record<string, (cluster: Cluster) => Promise<void>>> = {
  pg_basebackup: ({ sh }) => sh(block('pg_basebackup')),
  'a copy of the running data': copyRunning,
}

for (const [how, take] of Object.entries(takeBase))
  test(`of ${how} and archived WAL a database is restored to a point in time, passes verification and continues`, async (t) => {
    const bin = how === 'pg_basebackup' ? await installedPostgres() : await embeddedPrograms()
    if (bin === null) return t.skip(noTools)
    t.diagnostic(`with the programs of ${bin}`)
    const cluster = await startCluster(t, bin, archived)
    const started = await startOn(t, cluster)
    const load = startLoad(t, started.server.baseUrl, started.key)
    await load.more(10)
    await take(cluster)
    await load.more(10)
    await load.stop()
    assert.deepEqual(load.failures, [])
    const known = load.placed.slice(-3)
    const [{ point = '' } = {}] = await cluster.query<{ point: string }>(
      "select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') as point",
    )
    const unknown: Placed[] = []
    for (const key of [randomUUID(), randomUUID()]) {
      const { body } = await order(started.server.baseUrl, started.key, key)
      unknown.push({ key, orderId: body.orderId })
    }
    const [{ name = '' } = {}] = await cluster.query<{ name: string }>(
      'select pg_walfile_name(pg_current_wal_lsn()) as name',
    )
    await cluster.query('select pg_switch_wal()')
    await until(
      async () => {
        const [row] = await cluster.query<{ last: string }>(
          'select last_archived_wal as last from pg_stat_archiver',
        )
        return (row?.last ?? '') >= name
      },
      { timeoutMs: 30_000, what: 'the archive of the last WAL' },
    )
    const url = await cluster.moveTo('base')
    await cluster.sh(
      block('cp -R base')
        .replaceAll('/archive/', `${cluster.directory}/archive/`)
        .replace('2026-11-21 12:00:00', point)
        .replace('--wait start', '--log=restored.log --wait start'),
    )
    await until(
      async () => {
        const client = new pg.Client({ connectionString: url })
        await client.connect()
        const { rows } = await client.query('select pg_is_in_recovery() as busy').finally(() => client.end())
        return rows[0].busy === false
      },
      { timeoutMs: 60_000, what: 'the end of the recovery' },
    )
    await goesOn(t, started, url, { known, unknown })
    await started.server.stop()
  })

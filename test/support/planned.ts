import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import pg from 'pg'
import { startEmbeddedPostgres } from '../../src/platform/postgres/embedded.ts'
import { stopOrphan } from '../../src/platform/postgres/postmaster.ts'
import { atEnd } from './cleanup.ts'

/** The default settings of Postgres; no statistics are collected during a test, and every plan is logged. */
const settings = {
  jit: 'on',
  random_page_cost: '4',
  shared_buffers: '128MB',
  autovacuum: 'off',
  fsync: 'off',
  log_min_messages: 'log',
  log_line_prefix: '',
  shared_preload_libraries: 'auto_explain',
  'auto_explain.log_min_duration': '0',
  'auto_explain.log_format': 'json',
  'auto_explain.log_settings': 'on',
  'auto_explain.log_nested_statements': 'on',
  'auto_explain.log_parameter_max_length': '0',
} as const

type Node = { readonly Disabled?: boolean; readonly 'Total Cost': number; readonly Plans?: readonly Node[] }

/** A statement as a session planned it, and the settings for planning that the session had changed. */
export type Planned = {
  readonly text: string
  readonly settings: Readonly<Record<string, string>>
  readonly cost: number
}

/** Added for each way that is switched off and taken, as Postgres adds it up to release 17. */
const disabledCost = 1e10

const disabledIn = ({ Disabled, Plans = [] }: Node): number =>
  Plans.reduce((sum, node) => sum + disabledIn(node), Disabled ? 1 : 0)

/** The estimated cost of the whole statement: Postgres compares this with `jit_above_cost`. */
export const costOf = (plan: Node): number => plan['Total Cost'] + disabledIn(plan) * disabledCost

const readPlans = (log: string): readonly Planned[] =>
  [...log.matchAll(/^LOG: {2}duration: [\d.]+ ms {2}plan:\n((?:\t.*\n)+)/gm)].map(([, lines = '']) => {
    const explained = JSON.parse(lines.replaceAll(/^\t/gm, '').replaceAll('\t', '  '))
    return { text: explained['Query Text'], settings: explained.Settings ?? {}, cost: costOf(explained.Plan) }
  })

export type PlannedServer = {
  readonly url: string
  /** The plans since the last call. */
  plans(): Promise<readonly Planned[]>
}

/** A separate Postgres with default settings that logs the plan of each statement; removed with the test. */
export const startPlannedServer = async (t: TestContext): Promise<PlannedServer> => {
  const dataDir = await mkdtemp(join(tmpdir(), 'farebox-test-planned-'))
  atEnd(t, async () => {
    await stopOrphan(join(dataDir, 'postgres'))
    await rm(dataDir, { recursive: true, force: true })
  })
  const server = await startEmbeddedPostgres({ dataDir, role: 'test', settings })
  atEnd(t, () => server.stop())
  let read = 0
  return {
    url: server.ownerUrl,
    plans: async () => {
      const log = await readFile(join(dataDir, 'postgres.log'), 'utf8')
      // A line that is being written is read the next time.
      const end = log.lastIndexOf('\nLOG:  duration') + 1
      const plans = readPlans(log.slice(read, end))
      read = end
      return plans
    },
  }
}

const exampleOf: Readonly<Record<string, string>> = {
  bigint: 'n',
  boolean: 'false',
  bytea: `decode(md5(n::text), 'hex')`,
  cidr: `'10.0.0.0/8'`,
  date: 'current_date + n % 1000',
  inet: `'10.0.0.0'::inet + n`,
  integer: 'n % 1000',
  json: `'{}'`,
  jsonb: `'{}'`,
  numeric: 'n',
  smallint: '1',
  text: `'id-' || n`,
  'timestamp with time zone': `now() + n * interval '1 second'`,
  uuid: `md5(n::text)::uuid`,
}

/** Fills the tables of a module's state and of the read models with rows that mean nothing, so that there is much to plan for. */
export const fillTables = async (client: pg.Client, rows: number): Promise<void> => {
  const { rows: tables } = await client.query<{ name: string; columns: [string, string][] }>(
    `select format('%I.%I', c.table_schema, c.table_name) as name,
            json_agg(json_build_array(quote_ident(c.column_name), c.data_type)) as columns
       from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
      where c.table_schema in ('read', 'work', 'vault') and t.table_type = 'BASE TABLE'
      group by c.table_schema, c.table_name`,
  )
  await client.query(`set session_replication_role = replica; set synchronous_commit = off;
    do $$ declare each record; begin
      for each in select conrelid::regclass as of, conname from pg_constraint
                   where contype = 'c' and connamespace in ('read'::regnamespace, 'work'::regnamespace, 'vault'::regnamespace)
      loop execute format('alter table %s drop constraint %I', each.of, each.conname); end loop;
    end $$`)
  for (const { name, columns } of tables) {
    const values = columns.map(([, type]) => exampleOf[type] ?? `'{}'`)
    await client.query(
      `insert into ${name} (${columns.map(([column]) => column).join(', ')})
       select ${values.join(', ')} from generate_series(1, ${rows}) n on conflict do nothing`,
    )
  }
}

/**
 * Of a statement in the body of a function, which cannot run outside: its variables are not columns, it is an
 * expression, or it reads what a statement changed (`work.tell_queue`).
 */
const isOfFunction = ({ code, message }: { readonly code?: unknown; readonly message: string }): boolean =>
  code === '42601' || code === '42703' || (code === '42P01' && message.includes('"changed"'))

/**
 * The cost of a statement by a plan for any parameters, in a session with those settings. Null for one in the
 * body of a function.
 */
export const genericCost = async (
  client: pg.Client,
  { text, settings: changed }: Pick<Planned, 'text' | 'settings'>,
): Promise<number | null> => {
  await client.query('begin')
  try {
    for (const [name, value] of Object.entries(changed))
      await client.query('select set_config($1::text, $2::text, true)', [name, value])
    const { rows } = await client.query(`explain (generic_plan, format json) ${text}`)
    return costOf(rows[0]['QUERY PLAN'][0].Plan)
  } catch (error) {
    if (isOfFunction(error as Error)) return null
    throw error
  } finally {
    await client.query('rollback')
  }
}

export const connected = async (t: TestContext, url: string): Promise<pg.Client> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  atEnd(t, () => client.end())
  return client
}

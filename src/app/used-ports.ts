import type pg from 'pg'
import type { Migrations } from '../platform/postgres/migrate.ts'
import type { Config } from './config.ts'

/**
 * The ports of the last server of this database, for commands. A server uses a free port if its configured port is in
 * use.
 */
export const migrations: Migrations = {
  '1830_used_ports': `
    create table work.used_ports (
      part text primary key,
      port integer not null
    );
  `,
}

type UsedPorts = {
  /** The port in generated lines. */
  readonly gateway: number
  /** Null: the sandbox does not run in the server. */
  readonly sandbox: number | null
}

/** Stores the ports that a server uses. */
export const storeUsedPorts = async (pool: pg.Pool, { gateway, sandbox }: UsedPorts): Promise<void> => {
  await pool.query(
    `insert into work.used_ports (part, port)
     select part, port from (values ('gateway', $1::integer), ('sandbox', $2::integer)) as used (part, port)
      where port is not null
     on conflict (part) do update set port = excluded.port`,
    [gateway, sandbox],
  )
}

type UsedPort = { readonly part: keyof UsedPorts; readonly port: number }

/**
 * The settings with the ports that the last server of this database used. If they cannot be read, the settings stay
 * unchanged: a renamed table must not stop `ledger verify`.
 */
export const withUsedPorts = async (config: Config, pool: pg.Pool): Promise<Config> => {
  const { rows } = await pool
    .query<UsedPort>('select part, port from work.used_ports')
    .catch(() => ({ rows: [] as UsedPort[] }))
  const usedPorts = new Map(rows.map(({ part, port }) => [part, port]))
  const { gateway, payments } = config
  const sandbox = payments.sandbox && {
    ...payments.sandbox,
    port: usedPorts.get('sandbox') ?? payments.sandbox.port,
  }
  return {
    ...config,
    gateway: { ...gateway, port: usedPorts.get('gateway') ?? gateway.port },
    payments: { ...payments, sandbox },
  }
}

import type pg from 'pg'
import type { Logger } from 'pino'
import {
  accountTouchMigrations as accountTouches,
  migrations as checkpoints,
} from '../../projections/migrations.ts'
import { migrations as sealDelivery } from '../audit/external-seals/delivery-cursor.ts'
import { migrations as audit } from '../audit/migrations.ts'
import { migrations as accounts, customerMigrations as customers } from '../features/accounts/migrations.ts'
import { migrations as deposits } from '../features/deposits/migrations.ts'
import { migrations as exitHealth, exitLoginMigrations as exitLogins } from '../features/exits/exit-logins.ts'
import { migrations as finance } from '../features/finance/migrations.ts'
import {
  migrations as freeProxies,
  sourceMigrations as proxySources,
} from '../features/free-list/migrations.ts'
import { migrations as lines } from '../features/lines/migrations.ts'
import { migrations as noticeReads } from '../features/notices/read-marks.ts'
import { migrations as payments } from '../features/payments/migrations.ts'
import { migrations as traffic } from '../features/plans/migrations.ts'
import { messageMigrations as messages, migrations as resellers } from '../features/resellers/migrations.ts'
import {
  batchMigrations as scrapeBatches,
  providerMigrations as scraperHealth,
  migrations as scrapes,
} from '../features/scrapers/migrations.ts'
import { migrations as consoleSessions } from '../features/sign-in/migrations.ts'
import { migrations as stockLogins } from '../features/stock/stock-logins.ts'
import { migrations as subscriptions } from '../features/subscriptions/migrations.ts'
import { migrations as webhooks } from '../features/webhooks/migrations.ts'
import {
  budgetMigrations as gatewayLeases,
  migrations as gatewayLogins,
} from '../gateway/admit/migrations.ts'
import { closeOnFailure } from '../kernel/resource-scope.ts'
import { migrations as snapshots } from '../platform/commands/snapshots.ts'
import { migrations as log } from '../platform/eventstore/postgres/migrations.ts'
import { StartRefused } from '../platform/postgres/errors.ts'
import type { LockHolder } from '../platform/postgres/locks.ts'
import { type Migrations, migrate } from '../platform/postgres/migrate.ts'
import { migrations as keys } from '../platform/vault/keys.ts'
import { migrations as labels } from '../platform/vault/labels.ts'
import { migrations as queues } from '../platform/work/migrations.ts'
import { migrations as sandbox } from '../sandbox/sandbox-store.ts'
import { migrations as demo } from './demo/demo-file.ts'
import { openPool } from './open-pool.ts'

const schemas: Migrations = {
  '0000_schemas': `
    create schema log;
    create schema engine;
    create schema read;
    create schema vault;
    create schema work;
  `,
}

/**
 * Text of the read tables is compared by its bytes (projections/engine/table-sql.ts). An index in the database's own order
 * serves no join with it, so the ids that they are joined on are compared the same way. New statistics with it, since the
 * change of a column drops them.
 */
const idsByBytes: Migrations = {
  '1303_ids_by_bytes': `
    alter table vault.webhook_values
      alter column value_id type text collate "C", alter column endpoint_id type text collate "C";
    alter table vault.deposit_pages alter column deposit_id type text collate "C";
    alter table vault.customers
      alter column customer_id type text collate "C", alter column account_id type text collate "C";
    alter table vault.accounts alter column account_id type text collate "C";
    alter table vault.api_keys
      alter column key_id type text collate "C", alter column account_id type text collate "C";
    alter table work.deposit_looks
      alter column deposit_id type text collate "C", alter column gateway_id type text collate "C";
    alter table work.dispute_looks alter column gateway_id type text collate "C";
    alter table work.renewals alter column subscription_id type text collate "C";
    analyze vault.webhook_values, vault.deposit_pages, vault.customers, vault.accounts, vault.api_keys,
      work.deposit_looks, work.dispute_looks, work.renewals;
  `,
}

const migrationSets: readonly Migrations[] = [
  schemas,
  queues,
  keys,
  demo,
  log,
  checkpoints,
  snapshots,
  accounts,
  labels,
  webhooks,
  customers,
  messages,
  audit,
  sealDelivery,
  finance,
  resellers,
  noticeReads,
  payments,
  sandbox,
  deposits,
  traffic,
  subscriptions,
  accountTouches,
  idsByBytes,
  gatewayLeases,
  exitLogins,
  gatewayLogins,
  exitHealth,
  stockLogins,
  lines,
  freeProxies,
  proxySources,
  scrapes,
  consoleSessions,
  scraperHealth,
  scrapeBatches,
]

const collect = (all: readonly Migrations[]): Migrations => {
  const collected: Record<string, string> = {}
  for (const migrations of all)
    for (const [name, sql] of Object.entries(migrations)) {
      if (name in collected) throw new Error(`two rooms name a migration ${name}`)
      collected[name] = sql
    }
  return collected
}

/** The migrations of every room. */
export const allMigrations: Migrations = collect(migrationSets)

/** Tells databases apart, also of one name on two servers, and asks for no right. */
const whoAndWhere = `
  select current_user as role, concat_ws(' ', oid, datname, pg_postmaster_start_time()) as place
    from pg_database where datname = current_database()`

type Session = { readonly role: string; readonly place: string }

const sessionOf = async (pool: pg.Pool): Promise<Session> => {
  const { rows } = await pool.query<Session>(whoAndWhere)
  return rows[0]!
}

/**
 * Brings the database to this code. With an owner's address the owner does it, and gives the role of the pool what the
 * service needs; its connection is closed again before anything is served.
 * @param options.withinMs how long another process that migrates is waited for; `waitMs`: a connection of the owner
 * @throws MigrationRefused, LockHeld, DatabaseUnreachable, StartRefused: the start is to stop with their message
 */
export const migrateDatabase = async (options: {
  readonly pool: pg.Pool
  readonly ownerUrl: string | null
  readonly withinMs?: number
  readonly waitMs: number
  readonly logger: Logger
}): Promise<void> => {
  const { pool, ownerUrl, withinMs, waitMs, logger } = options
  const waiting = {
    ...(withinMs !== undefined && { withinMs }),
    onWait: (holder: LockHolder | null) =>
      logger.warn({ holder }, 'another process is migrating the database: waiting for it'),
  }
  const asOwner = async (url: string): Promise<readonly string[]> => {
    const opened = await closeOnFailure(async (closing) => {
      const { pool: owners } = await openPool(
        closing,
        { url, applicationName: 'farebox-owner', max: 1 },
        { withinMs: waitMs, logger, setting: 'DATABASE_OWNER_URL' },
      )
      return { owners, close: closing.close }
    })
    try {
      const [serving, owning] = [await sessionOf(pool), await sessionOf(opened.owners)]
      if (serving.place !== owning.place)
        throw new StartRefused(
          'DATABASE_OWNER_URL and DATABASE_URL are two databases. Set both to the same one, as two of its users.',
        )
      const service = serving.role === owning.role ? {} : { service: serving.role }
      return await migrate(opened.owners, allMigrations, { ...waiting, ...service })
    } finally {
      await opened.close()
    }
  }
  const applied = ownerUrl === null ? await migrate(pool, allMigrations, waiting) : await asOwner(ownerUrl)
  if (applied.length > 0) logger.info({ applied }, 'migrated the database')
}

import { migrations as accountTouches } from '../../projections/account-touches.ts'
import { migrations as checkpoints } from '../../projections/migrations.ts'
import { migrations as audit } from '../books/audit/migrations.ts'
import { migrations as finance } from '../books/finance/migrations.ts'
import { migrations as sealDelivery } from '../books/witness/cursor.ts'
import { migrations as consoleSessions } from '../console/session/migrations.ts'
import { migrations as freeProxies } from '../freelist/record/migrations.ts'
import { migrations as proxySources } from '../freelist/sources/migrations.ts'
import { migrations as gatewayLogins } from '../gateway/access/migrations.ts'
import { migrations as gatewayLeases } from '../gateway/budget/migrations.ts'
import { migrations as exitHealth } from '../gateway/exits/migrations.ts'
import { migrations as exitLogins } from '../gateway/exits/vault.ts'
import { migrations as lines } from '../gateway/lines/migrations.ts'
import { migrations as accounts } from '../market/accounts/migrations.ts'
import { migrations as customers } from '../market/customers/migrations.ts'
import { migrations as labels } from '../market/labels/migrations.ts'
import { migrations as traffic } from '../market/plans/migrations.ts'
import { migrations as resellers } from '../market/resellers/migrations.ts'
import { migrations as stockLogins } from '../market/stock/migrations.ts'
import { migrations as subscriptions } from '../market/subscriptions/migrations.ts'
import { migrations as deposits } from '../money/deposits/migrations.ts'
import { migrations as payments } from '../money/payments/migrations.ts'
import { migrations as messages } from '../outbound/messaging/migrations.ts'
import { migrations as noticeReads } from '../outbound/notices/read-marks.ts'
import { migrations as webhooks } from '../outbound/webhooks/migrations.ts'
import { migrations as snapshots } from '../platform/eventstore/commands/migrations.ts'
import { migrations as log } from '../platform/eventstore/postgres/migrations.ts'
import type { Migrations } from '../platform/postgres/migrate.ts'
import { migrations as keys } from '../platform/vault/keys.ts'
import { migrations as queues } from '../platform/work/migrations.ts'
import { migrations as sandbox } from '../sandbox/records.ts'
import { migrations as scrapeBatches } from '../scrapers/batches/migrations.ts'
import { migrations as scrapes } from '../scrapers/calls/migrations.ts'
import { migrations as scraperHealth } from '../scrapers/provider/migrations.ts'
import { migrations as demo } from './demo/migrations.ts'

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

const rooms: readonly Migrations[] = [
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
export const allMigrations: Migrations = collect(rooms)

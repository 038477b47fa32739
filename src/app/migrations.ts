import { migrations as projections } from '../../projections/migrations.ts'
import { migrations as audit } from '../audit/migrations.ts'
import { migrations as accounts } from '../features/accounts/migrations.ts'
import { migrations as deposits } from '../features/deposits/migrations.ts'
import { migrations as exits } from '../features/exits/migrations.ts'
import { migrations as finance } from '../features/finance/migrations.ts'
import { migrations as freeList } from '../features/free-list/migrations.ts'
import { migrations as lines } from '../features/lines/migrations.ts'
import { migrations as notices } from '../features/notices/migrations.ts'
import { migrations as payments } from '../features/payments/migrations.ts'
import { migrations as plans } from '../features/plans/migrations.ts'
import { migrations as resellers } from '../features/resellers/migrations.ts'
import { migrations as scrapers } from '../features/scrapers/migrations.ts'
import { migrations as signIn } from '../features/sign-in/migrations.ts'
import { migrations as stock } from '../features/stock/migrations.ts'
import { migrations as subscriptions } from '../features/subscriptions/migrations.ts'
import { migrations as trafficBudgets } from '../features/traffic-budgets/migrations.ts'
import { migrations as wallet } from '../features/wallet/migrations.ts'
import { migrations as webhooks } from '../features/webhooks/migrations.ts'
import { migrations as gateway } from '../gateway/migrations.ts'
import { migrations as snapshots } from '../platform/commands/snapshots.ts'
import { migrations as log } from '../platform/eventstore/postgres/migrations.ts'
import type { Migrations } from '../platform/postgres/migrate.ts'
import { migrations as keys } from '../platform/vault/keys.ts'
import { migrations as labels } from '../platform/vault/labels.ts'
import { migrations as queues } from '../platform/work/migrations.ts'
import { migrations as sandbox } from '../sandbox/sandbox-store.ts'
import { migrations as demo } from './demo/demo-file.ts'
import { migrations as usedPorts } from './used-ports.ts'

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
 * Text of the read tables has a byte-wise collation (src/platform/projections/definition.ts). An index in the
 * database's own collation cannot serve a join with it, so the joined ids get the same collation. The change of a
 * column drops its statistics, so they are collected again.
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
  idsByBytes,
  log,
  projections,
  snapshots,
  keys,
  labels,
  queues,
  accounts,
  deposits,
  exits,
  finance,
  freeList,
  lines,
  notices,
  payments,
  plans,
  resellers,
  scrapers,
  signIn,
  stock,
  subscriptions,
  trafficBudgets,
  wallet,
  webhooks,
  gateway,
  audit,
  sandbox,
  demo,
  usedPorts,
]

const collect = (all: readonly Migrations[]): Migrations => {
  const collected: Record<string, string> = {}
  for (const migrations of all)
    for (const [name, sql] of Object.entries(migrations)) {
      if (name in collected) throw new Error(`two modules name a migration ${name}`)
      collected[name] = sql
    }
  return collected
}

/** Every migration of the program. They run in the order of their names. */
export const allMigrations: Migrations = collect(migrationSets)

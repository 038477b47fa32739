import { migrations as checkpoints } from '../../projections/migrations.ts'
import { migrations as accounts } from '../accounts/migrations.ts'
import { migrations as audit } from '../audit/migrations.ts'
import { migrations as customers } from '../customers/migrations.ts'
import { migrations as demo } from '../demo/migrations.ts'
import { migrations as deposits } from '../deposits/migrations.ts'
import { migrations as snapshots } from '../eventstore/commands/migrations.ts'
import { migrations as log } from '../eventstore/postgres/migrations.ts'
import { migrations as finance } from '../finance/migrations.ts'
import { migrations as kept } from '../kept/migrations.ts'
import { migrations as keys } from '../keys.ts'
import { migrations as labels } from '../labels/migrations.ts'
import { migrations as messages } from '../messaging/migrations.ts'
import { migrations as noticeReads } from '../notices/read-marks.ts'
import { migrations as payments } from '../payments/migrations.ts'
import { migrations as traffic } from '../plans/migrations.ts'
import { migrations as resellers } from '../resellers/migrations.ts'
import { migrations as sandbox } from '../sandbox/records.ts'
import { migrations as subscriptions } from '../subscriptions/migrations.ts'
import { migrations as webhooks } from '../webhooks/migrations.ts'
import type { Migrations } from './migrate.ts'

const schemas: Migrations = {
  '0000_schemas': `
    create schema log;
    create schema engine;
    create schema read;
    create schema vault;
    create schema work;
  `,
}

const rooms: readonly Migrations[] = [
  schemas,
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
  finance,
  resellers,
  noticeReads,
  payments,
  sandbox,
  deposits,
  traffic,
  subscriptions,
  kept,
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

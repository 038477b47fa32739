import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * Renewals that were refused, so that a wallet that stays empty is not asked every second. Lost rows only mean one
 * more look.
 */
export const migrations: Migrations = {
  '1003_renewals': `
    create table work.renewals (
      subscription_id text primary key,
      period_start timestamptz not null,
      reason text not null,
      -- What the wallet must hold to be asked at once; null when money is not what is missing.
      needed_micros bigint,
      retry_at timestamptz not null
    );
  `,
}

import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * Refused renewals, so that a renewal is not retried every second while the wallet is empty. A lost row only causes one
 * more try.
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

import type { Migrations } from '../../platform/postgres/migrate.ts'

/** The logins for supplier endpoints of addresses in stock. */
export const migrations: Migrations = {
  '1407_stock_credentials': `
    create table vault.stock_credentials (
      credential_id text primary key collate "C",
      ip text not null,
      sealed bytea not null,
      created_at timestamptz not null default clock_timestamp()
    );
  `,
}

import type { Migrations } from '../../platform/postgres/migrate.ts'

/** What signs in at the endpoints of suppliers that addresses in stock are reached through. */
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

import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * What resellers sign in to third parties with, sealed. A row never changes and stays when another one takes its place:
 * a payment that was begun under it is still called back and looked up under it.
 */
export const migrations: Migrations = {
  '0701_reseller_credentials': `
    create table vault.reseller_credentials (
      reference text primary key,
      reseller_id text not null,
      purpose text not null check (purpose in ('card', 'crypto', 'bot')),
      provider text not null,
      sealed bytea not null,
      created_at timestamptz not null default clock_timestamp()
    );
    create index reseller_credentials_reseller on vault.reseller_credentials (reseller_id);
  `,
}

import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * What must be erasable of resellers' customers: the resellers' own ids and words for them, and where a messaging bot
 * reaches them. Events name a customer by `customer_id` alone.
 */
export const migrations: Migrations = {
  '0720_customers': `
    create table vault.customers (
      customer_id text primary key,
      account_id text not null,
      ref text,
      label text,
      chat_id text,
      created_at timestamptz not null default clock_timestamp(),
      unique (account_id, ref)
    );
    create index customers_newest on vault.customers (account_id, created_at desc, customer_id desc);
  `,
}

import type { Migrations } from '../../platform/postgres/migrate.ts'

/** Hashes of finance tokens. A row here grants nothing: a token exists if it was issued in the log. */
export const migrations: Migrations = {
  '0610_finance_tokens': `
    create table vault.finance_tokens (
      hash bytea primary key,
      token_id text not null unique,
      created_at timestamptz not null default clock_timestamp()
    );
  `,
  '1711_finance_token_commitments': `
    alter table vault.finance_tokens add column salt bytea;
    update vault.finance_tokens set salt = uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid());
    insert into vault.uncommitted select 'finance-token', token_id from vault.finance_tokens;
  `,
}

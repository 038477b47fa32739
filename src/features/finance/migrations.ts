import type { Migrations } from '../../platform/postgres/migrate.ts'

/** Hashes of finance tokens. A row here opens nothing: a token is one that was issued in the log. */
export const migrations: Migrations = {
  '0610_finance_tokens': `
    create table vault.finance_tokens (
      hash bytea primary key,
      token_id text not null unique,
      created_at timestamptz not null default clock_timestamp()
    );
  `,
}

import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * Targeting that is too long for a username, for the lines of a plan; and addresses that connect without credentials.
 * Addresses are personal data, so both are in the vault.
 */
export const migrations: Migrations = {
  '1404_lines': `
    create table vault.line_sets (
      plan_id text not null collate "C",
      set_id text not null collate "C",
      targeting jsonb not null,
      created_at timestamptz not null default clock_timestamp(),
      primary key (plan_id, set_id)
    );
    create table vault.whitelist (
      entry_id text primary key collate "C",
      account_id text not null collate "C",
      plan_id text not null collate "C",
      network cidr not null unique,
      label text not null,
      created_at timestamptz not null,
      last_used_at timestamptz
    );
    create index whitelist_plan on vault.whitelist (plan_id, entry_id);
    create index whitelist_account on vault.whitelist (account_id);
  `,
  // The targeting of an address's connections; null: anywhere.
  '1408_whitelist_targeting': 'alter table vault.whitelist add column targeting jsonb',
  // Signatures of an older version. They are checked once more when an upgrade adopts the entries.
  '1782_signed_whitelist': 'alter table vault.whitelist add column signature bytea',
  // Null for an entry without a commitment in an event: it admits no client. A removal is stored here in the transaction
  // that changes the row, and deleted once it is in the log. The line of `vault.uncommitted` requests the adoption of
  // the entries, or, if there are none, its completion.
  '1840_committed_whitelist': `
    alter table vault.whitelist add column salt bytea;
    update vault.whitelist set salt = uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid());
    insert into vault.uncommitted select 'whitelists', '' where exists (select from vault.accounts);
    create table work.whitelist_removals (
      commitment text primary key collate "C",
      account_id text not null collate "C",
      removed_at timestamptz not null default clock_timestamp()
    );
    create index whitelist_removals_account on work.whitelist_removals (account_id);
  `,
  // Null: a set without a name, for targeting that is too long for a username.
  '1895_named_line_sets': 'alter table vault.line_sets add column name text',
}

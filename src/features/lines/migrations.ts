import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * Targeting that is too long for a username, by the plan whose lines name it; and the addresses that connect without
 * credentials. An address is personal, so both stand in the vault.
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
  // Where connections of an address go out; null: anywhere.
  '1408_whitelist_targeting': 'alter table vault.whitelist add column targeting jsonb',
  // Of entries that an older version wrote; they are compared once more when an upgrade adopts them.
  '1782_signed_whitelist': 'alter table vault.whitelist add column signature bytea',
  // Null for an entry that no event commits to: it lets nobody in. A removal is written here together with the change of the
  // row, and deleted once it is in the log. The line of `vault.uncommitted` asks for the adoption of the entries, or, where there
  // are none, for its end.
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
}

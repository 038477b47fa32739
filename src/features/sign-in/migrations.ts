import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * Credentials of the console: hashes of secrets, public keys of passkeys, and addresses. All of them can be erased with
 * their person.
 */
export const migrations: Migrations = {
  '1510_console': `
    create table vault.staff (
      staff_id text collate "C" primary key,
      email text not null,
      created_at timestamptz not null default clock_timestamp()
    );
    create unique index staff_email on vault.staff (lower(email));

    create table vault.console_sessions (
      session_id text collate "C" primary key,
      hash bytea not null unique,
      subject_id text collate "C" not null,
      method text not null,
      created_at timestamptz not null,
      seen_at timestamptz not null,
      ends_at timestamptz not null,
      confirmed_until timestamptz,
      confirmed_act text,
      viewing_account_id text collate "C",
      user_agent text not null,
      address text not null
    );
    create index console_sessions_subject on vault.console_sessions (subject_id, session_id);
    create index console_sessions_end on vault.console_sessions (ends_at);

    create table vault.console_links (
      hash bytea primary key,
      subject_id text collate "C",
      recipient bytea unique,
      browser bytea,
      code bytea,
      attempts integer not null default 0,
      opened boolean not null default false,
      expires_at timestamptz not null
    );
    create index console_links_browser on vault.console_links (browser);
    create index console_links_end on vault.console_links (expires_at);

    create table vault.console_codes (
      session_id text collate "C" primary key,
      act text not null,
      code bytea not null,
      attempts integer not null default 0,
      expires_at timestamptz not null
    );

    create table vault.console_passkeys (
      passkey_id text collate "C" primary key,
      credential_id text not null unique,
      subject_id text collate "C" not null,
      name text not null,
      public_key bytea not null,
      sign_count bigint not null,
      transports text[] not null,
      created_at timestamptz not null,
      used_at timestamptz
    );
    create index console_passkeys_subject on vault.console_passkeys (subject_id, passkey_id);

    create table vault.console_spent (
      hash bytea primary key,
      expires_at timestamptz not null
    );
    create index console_spent_end on vault.console_spent (expires_at);

    create table work.console_address (
      single boolean primary key default true check (single),
      origin text not null
    );
  `,
  // Older sessions, links and codes have no signature and are not accepted: their person signs in again.
  '1712_console_commitments': `
    alter table vault.staff add column salt bytea;
    update vault.staff set salt = uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid());
    insert into vault.uncommitted select 'staff', staff_id from vault.staff;
    alter table vault.console_passkeys add column salt bytea;
    update vault.console_passkeys set salt = uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid());
    insert into vault.uncommitted select 'passkey', passkey_id from vault.console_passkeys;
    alter table vault.console_sessions add column signature bytea;
    alter table vault.console_links add column signature bytea;
  `,
  // A new request for a link or a code does not invalidate earlier ones.
  '1811_several_links_and_codes': `
    alter table vault.console_links drop constraint console_links_recipient_key;
    alter table vault.console_codes drop constraint console_codes_pkey, add primary key (session_id, code);
  `,
  // The next server that starts writes the address again.
  '1850_signed_console_address': `
    alter table work.console_address add column signature bytea;
  `,
}

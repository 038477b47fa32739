import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * E-mails and key hashes: they must be erasable or secret. A row here creates nothing: an account exists if its stream
 * says so, a key if it was issued in that stream.
 */
const accountTables: Migrations = {
  '0201_accounts': `
    create table vault.accounts (
      account_id text primary key,
      email text not null,
      created_at timestamptz not null default clock_timestamp()
    );
    create unique index accounts_email on vault.accounts (lower(email));
    create table vault.api_keys (
      hash bytea primary key,
      key_id text not null unique,
      account_id text not null,
      created_at timestamptz not null default clock_timestamp()
    );
    create index api_keys_account on vault.api_keys (account_id);
  `,
  '0202_key_uses': `
    create table work.key_uses (
      key_id text primary key,
      last_used_at timestamptz not null
    ) with (fillfactor = 50);
  `,
  // Null for older keys: no event has a commitment of their hash.
  '0203_key_salts': 'alter table vault.api_keys add column salt bytea',
  // Rows that older releases left without a commitment: the next start adds it (src/app/adopt-commitments.ts).
  '1710_commitments': `
    create table vault.uncommitted (
      what text collate "C" not null,
      id text collate "C" not null,
      primary key (what, id)
    );
    alter table vault.accounts add column salt bytea;
    update vault.accounts set salt = uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid());
    insert into vault.uncommitted select 'account', account_id from vault.accounts;
    insert into vault.uncommitted select 'api-key', key_id from vault.api_keys where salt is null;
    update vault.api_keys set salt = uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
      where salt is null;
  `,
}

/**
 * Erasable data of resellers' customers: the resellers' own ids and labels, and the chats in which a messaging bot
 * reaches them. Events name a customer by `customer_id` only.
 */
const customerTables: Migrations = {
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
  '1783_signed_chats': 'alter table vault.customers add column chat_signature bytea',
}

export const migrations: Migrations = { ...accountTables, ...customerTables }

import type { Migrations } from '../../platform/postgres/migrate.ts'

/** Labels are a reseller's words for its customers, so they stand in the vault and never in an event. */
export const migrations: Migrations = {
  '0401_labels': `
    create table vault.labels (
      resource_id text primary key,
      account_id text not null,
      label text not null,
      changed_at timestamptz not null default now()
    );
  `,
  '0402_replacement_comments': `
    create table vault.replacement_comments (
      proxy_id text not null,
      account_id text not null,
      comment text not null,
      made_at timestamptz not null default now()
    );
    create index on vault.replacement_comments (proxy_id);
  `,
  // Which replacement of the rental it is about.
  '0403_replacement_comment_of': `
    alter table vault.replacement_comments add column replaced_at timestamptz;
  `,
}

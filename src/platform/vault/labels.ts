import type pg from 'pg'
import type { AccountId, PlanId, ProxyId } from '../../kernel/ids.ts'
import type { Migrations } from '../postgres/migrate.ts'

/** The most characters of a label. */
export const maxLabelLength = 64

/** Sets the account's label of a plan or a rental. The empty text deletes it. */
export const setLabel = async (
  pool: pg.Pool,
  account: AccountId,
  resource: PlanId | ProxyId,
  label: string,
): Promise<void> => {
  if (label === '') {
    await pool.query('delete from vault.labels where resource_id = $1::text and account_id = $2::text', [
      resource,
      account,
    ])
    return
  }
  await pool.query(
    `insert into vault.labels (resource_id, account_id, label) values ($1::text, $2::text, $3::text)
     on conflict (resource_id) do update set label = excluded.label, changed_at = now()
     where vault.labels.account_id = excluded.account_id`,
    [resource, account, label],
  )
}

/** Labels are texts of a reseller for its customers, so they are in the vault and never in an event. */
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
  // The replacement of the rental that the comment belongs to.
  '0403_replacement_comment_of': `
    alter table vault.replacement_comments add column replaced_at timestamptz;
  `,
}

import type { Migrations } from '../src/platform/postgres/migrate.ts'

/** The tables that had triggers, each with `account_id`. */
const watched = ['vault.labels', 'vault.customers', 'vault.notice_reads', 'work.traffic'] as const

const triggersOn = (table: string): string =>
  (['insert', 'update', 'delete'] as const)
    .map(
      (operation) => `
    create trigger account_touched_by_${operation} after ${operation} on ${table}
      referencing ${operation === 'delete' ? 'old' : 'new'} table as changed
      for each statement execute function work.touch_accounts();`,
    )
    .join('')

/**
 * Up to version 0.2, answers of GETs were cached, and triggers counted the changes of each account outside the log. Both
 * are gone (docs/decisions/0038-reads.md).
 */
export const migrations: Migrations = {
  '1101_account_touches': `
    create table work.account_touches (
      account_id text primary key,
      touches bigint not null
    ) with (fillfactor = 50);
    create function work.touch_accounts() returns trigger language plpgsql as $$
    begin
      insert into work.account_touches as known (account_id, touches)
      select account_id, 1 from (select distinct account_id from changed) each order by account_id
      on conflict (account_id) do update set touches = known.touches + 1;
      return null;
    end $$;
    ${watched.map(triggersOn).join('')}
  `,
  '1404_no_account_touches': `
    ${watched
      .flatMap((table) =>
        ['insert', 'update', 'delete'].map(
          (operation) => `drop trigger account_touched_by_${operation} on ${table};`,
        ),
      )
      .join('\n    ')}
    drop function work.touch_accounts();
    drop table work.account_touches;
  `,
}

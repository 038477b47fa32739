import type { Migrations } from '../../../src/platform/postgres/migrate.ts'

/** The tables outside the log that answers are made of, each with `account_id`; the triggers below are on these. */
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
 * A number an account that rises with every change of its rows in tables which are not folded from the log. It is
 * raised by the statement that makes the change, whichever process sends it, and is seen with it. Rows are raised in
 * the order of their keys, so that statements never wait in a circle.
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
}

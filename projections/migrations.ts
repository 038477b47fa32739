import type { Migrations } from '../src/platform/postgres/migrate.ts'

/** The tables that had triggers, each with a column `account_id`. */
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
 * Up to version 0.2, answers of GETs were cached, and triggers counted the changes of each account outside the log.
 * Both were removed (docs/decisions/0038).
 */
const accountTouches: Migrations = {
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

/**
 * The position of each group of read models in the log. `epoch` is a fencing token: it increases whenever a process
 * takes over the group or its tables are replaced, and a batch is written only at the epoch it was folded under.
 * `definitions` has the model versions that filled the tables of schema `read`. The engine creates those tables, not
 * migrations.
 *
 * `stopped` has the models that could not apply an event (src/platform/projections/checkpoint.ts).
 *
 * `last_event` is the id of the event at `position`, or null: if a program moves the position without setting it, a
 * trigger clears it. `lineage` changes when the tables are rebuilt because the log is not the one they were folded
 * from: positions that a client stored before are then meaningless.
 */
const checkpoints: Migrations = {
  '0101_checkpoints': `
    create table engine.checkpoints (
      name text primary key,
      log_id text not null,
      position bigint not null,
      epoch bigint not null,
      definitions jsonb not null
    ) with (fillfactor = 50)`,
  '0102_last_event': `
    alter table engine.checkpoints add column last_event uuid, add column lineage uuid not null default gen_random_uuid();
    create function engine.forget_last_event() returns trigger language plpgsql as $$
    begin
      new.last_event := null;
      return new;
    end
    $$;
    create trigger last_event_of_position before update of position on engine.checkpoints for each row
      when (new.position <> old.position and new.last_event is not distinct from old.last_event)
      execute function engine.forget_last_event();`,
  // An exception, not a result: rows that are copied after it in the same transaction must not be written either.
  '1302_move_checkpoint': `
    create function engine.move_checkpoint(
      of_group text, of_log text, of_epoch bigint, from_position bigint, to_position bigint, to_event uuid
    ) returns void language plpgsql as $$
    begin
      update engine.checkpoints set position = to_position, last_event = to_event
      where name = of_group and log_id = of_log and epoch = of_epoch and position = from_position;
      if not found then
        raise exception 'group % does not stand at position % of log % in epoch %: another process folds it',
          of_group, from_position, of_log, of_epoch using errcode = 'FB001';
      end if;
    end
    $$;`,
  '1880_stopped_models': `alter table engine.checkpoints add column stopped jsonb not null default '{}'`,
}

export const migrations: Migrations = { ...checkpoints, ...accountTouches }

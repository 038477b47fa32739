import type { Migrations } from '../postgres/migrate.ts'

/**
 * The work queue's own tables and functions. docs/decisions/0001 explains why the lease is on an owner and not on an
 * item.
 *
 * `queue_owners` has a row for each owner that ever had an item: the time when its earliest pending item is due
 * (never later than that), the time until which it is paused, the worker that has the lease, and the memory of the
 * queue about it. Due times are in the service's clock, leases in the clock of Postgres.
 *
 * `work.add_queue('scrapes', 'work.scrapes', 'site')` makes a table a queue. The table has the columns `status`
 * ('pending', 'done' or 'dead'), `due_at`, `attempts`, `finished_at` and `result`, an owner column and a key, all
 * text. After that a plain insert or update is enough: a trigger updates the owner's row.
 *
 * `worker_runs` has a row for each worker of each process (worker-runs.ts): its last round and its last error.
 * `reported_at` is in the clock of Postgres, all other times in the service's clock.
 *
 * `engine.auditor_locks` has a row for each lock of the auditor, with the session that has it
 * (src/platform/postgres/locks.ts).
 */
export const migrations: Migrations = {
  '1410_queues': `
    create table work.queue_owners (
      queue text collate "C" not null,
      owner text collate "C" not null,
      next_due_at timestamptz,
      hold_until timestamptz,
      lease_worker integer,
      lease_until timestamptz,
      memory jsonb,
      primary key (queue, owner)
    ) with (fillfactor = 70);
    create index queue_owners_due on work.queue_owners (queue, next_due_at) where lease_worker is null;
    create index queue_owners_leased on work.queue_owners (lease_worker) where lease_worker is not null;
    create sequence work.queue_workers as integer cycle;

    -- Its lock on the owner's row, taken also where nothing changes, makes the release of a lease wait: no item is missed
    -- that comes while its owner is leased.
    create function work.tell_queue() returns trigger language plpgsql as $$
    begin
      execute format(
        'insert into work.queue_owners as q (queue, owner, next_due_at)
         select %L, %2$I, min(due_at) from changed where status = ''pending'' group by %2$I order by %2$I
         on conflict (queue, owner) do update set next_due_at = excluded.next_due_at
           where q.next_due_at is null or q.next_due_at > excluded.next_due_at', tg_argv[0], tg_argv[1]);
      return null;
    end $$;

    create function work.add_queue(name text, items regclass, owner_column text) returns void language plpgsql as $$
    begin
      execute format('create index on %s (%I, due_at) where status = ''pending''', items, owner_column);
      perform work.tell_queue_of(name, items, owner_column);
    end $$;

    -- As add_queue, for a table that has an index of its own for what is due of an owner.
    create function work.tell_queue_of(name text, items regclass, owner_column text) returns void language plpgsql as $$
    begin
      execute format('alter table %s alter column %I type text collate "C"', items, owner_column);
      execute format(
        'create trigger tell_queue_of_new after insert on %s referencing new table as changed
           for each statement execute function work.tell_queue(%L, %L)', items, name, owner_column);
      execute format(
        'create trigger tell_queue_of_changed after update on %s referencing new table as changed
           for each statement execute function work.tell_queue(%L, %L)', items, name, owner_column);
      execute format(
        'insert into work.queue_owners (queue, owner, next_due_at)
         select %L, %2$I, min(due_at) from %3$s where status = ''pending'' group by %2$I
         on conflict do nothing',
        name, owner_column, items);
    end $$;

    -- Locks first, looks then: the second statement sees what came while the first one waited. Items that are over stay in
    -- the index where it is no partial one, so the look starts at the time before which nothing is pending.
    create function work.release_queue_owners(
      name text, items regclass, owner_column text, worker integer,
      owners text[], held timestamptz[], memories jsonb[]) returns void
    language plpgsql as $$
    begin
      perform 1 from work.queue_owners q
        where q.queue = name and q.owner = any (owners) and q.lease_worker = worker order by q.owner for update;
      execute format(
        'update work.queue_owners q
            set lease_worker = null, lease_until = null, hold_until = r.held, memory = r.memory,
                next_due_at = (select d.due_at from %1$s d
                                where d.%2$I = q.owner and d.status = ''pending'' and d.due_at >= q.next_due_at
                                order by d.due_at limit 1)
           from unnest($3::text[], $4::timestamptz[], $5::jsonb[]) as r (owner, held, memory)
          where q.queue = $1::text and q.owner = r.owner and q.lease_worker = $2::integer', items, owner_column)
        using name, worker, owners, held, memories;
    end $$;
  `,
  '1701_worker_runs': `
    create table work.worker_runs (
      name text collate "C" not null,
      host text collate "C" not null,
      pid integer not null,
      process text not null,
      started_at timestamptz,
      finished_at timestamptz,
      error text,
      error_at timestamptz,
      failures integer not null,
      ended boolean not null,
      reported_at timestamptz not null,
      primary key (name, host, pid)
    );
  `,
  '4961_auditor_locks': `
    create table engine.auditor_locks (
      name text primary key,
      backend integer not null,
      role oid not null,
      started_at timestamptz not null
    );
  `,
}

import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * URLs and secrets are encrypted in the vault, one row for each value. A change is a new row, and the events of the log
 * name the valid one. The rest are work tables: the reactor's state in log order, and the due times. Times are by the
 * service's clock, except for leases, which use the clock of Postgres.
 */
export const migrations: Migrations = {
  '0901_webhooks': `
    create table vault.webhook_values (
      value_id text primary key,
      endpoint_id text not null,
      sealed bytea not null
    );
    create index webhook_values_endpoint on vault.webhook_values (endpoint_id);

    create table work.webhook_reactor (
      name text primary key,
      log_id text not null,
      position bigint not null,
      epoch bigint not null
    );
    create table work.webhook_endpoints (
      endpoint_id text primary key,
      account_id text not null,
      events text[],
      active boolean not null
    );
    create table work.webhook_accounts (
      account_id text primary key,
      reseller boolean not null,
      active_keys integer not null
    );
    create table work.webhook_low_plans (
      plan_id text primary key,
      account_id text not null,
      product_id text not null,
      total_bytes bigint not null,
      used_bytes bigint not null,
      expires_at timestamptz
    );

    create table work.webhook_fan_outs (
      cause_id uuid primary key,
      event text not null,
      resource text not null,
      data text not null,
      correlation_id text not null
    );
    create table work.webhook_fan_out_targets (
      cause_id uuid not null references work.webhook_fan_outs,
      endpoint_id text not null,
      account_id text not null,
      primary key (cause_id, endpoint_id)
    );

    create table work.webhook_deliveries (
      delivery_id text primary key,
      endpoint_id text not null,
      account_id text not null,
      event text not null,
      resource text not null,
      data text not null,
      round integer not null,
      revision bigint not null,
      position bigint not null,
      status text not null,
      attempts integer not null,
      due_at timestamptz not null,
      queued_at timestamptz not null,
      finished_at timestamptz
    ) with (fillfactor = 70);
    create index webhook_deliveries_due on work.webhook_deliveries (endpoint_id, due_at) where status = 'pending';
    create index webhook_deliveries_list on work.webhook_deliveries (endpoint_id, queued_at desc, delivery_id desc);
    create index webhook_deliveries_finished on work.webhook_deliveries (finished_at) where finished_at is not null;

    create table work.webhook_attempts (
      delivery_id text not null,
      round integer not null,
      attempt integer not null,
      at timestamptz not null,
      status integer,
      latency_ms integer not null,
      error text,
      answer text not null,
      primary key (delivery_id, round, attempt)
    );

    create table work.webhook_queues (
      endpoint_id text primary key,
      next_due_at timestamptz,
      failures integer not null default 0,
      lease_owner integer,
      lease_until timestamptz
    ) with (fillfactor = 70);
    create index webhook_queues_due on work.webhook_queues (next_due_at) where lease_owner is null;
    create index webhook_queues_leased on work.webhook_queues (lease_owner) where lease_owner is not null;
    create sequence work.webhook_workers as integer cycle;

    -- Locks first, looks then: the second statement sees what was queued while the first one waited, so that no
    -- delivery is forgotten that was queued while its endpoint was leased.
    create function work.release_webhook_queues(owner integer, endpoints text[], failed integer[]) returns void
    language plpgsql as $$
    begin
      perform 1 from work.webhook_queues
        where endpoint_id = any (endpoints) and lease_owner = owner order by endpoint_id for update;
      update work.webhook_queues q
         set lease_owner = null, lease_until = null, failures = r.failures,
             next_due_at = (select min(d.due_at) from work.webhook_deliveries d
                             where d.endpoint_id = q.endpoint_id and d.status = 'pending')
        from unnest(endpoints, failed) as r (endpoint_id, failures)
       where q.endpoint_id = r.endpoint_id and q.lease_owner = owner;
    end $$;
  `,
  // `last_event` is the id of the event at `position`. Nothing is sent before the reactor has passed `hold_until`.
  '0902_webhook_place': `
    alter table work.webhook_reactor add column last_event uuid, add column hold_until bigint;
    create trigger last_event_of_position before update of position on work.webhook_reactor for each row
      when (new.position <> old.position and new.last_event is not distinct from old.last_event)
      execute function engine.forget_last_event();
  `,
  // Replaced URLs, and secrets whose overlap ends: values that the log no longer uses, and from when on.
  '0903_superseded_values': `
    create table work.webhook_superseded_values (
      value_id text primary key,
      erase_at timestamptz not null
    );
    create index webhook_superseded_values_due on work.webhook_superseded_values (erase_at);
  `,
  // No index contains a column that an outcome changes, so that an outcome writes no index (docs/decisions/0022).
  // Finished deliveries stay in `due`. Readers start at the queue's own `next_due_at`, which is never later than a
  // pending delivery.
  '0904_outcomes_without_indices': `
    drop index work.webhook_deliveries_due;
    drop index work.webhook_deliveries_finished;
    create index webhook_deliveries_due on work.webhook_deliveries (endpoint_id, due_at);
    create index webhook_deliveries_queued on work.webhook_deliveries (queued_at);

    create or replace function work.release_webhook_queues(owner integer, endpoints text[], failed integer[])
    returns void language plpgsql as $$
    begin
      perform 1 from work.webhook_queues
        where endpoint_id = any (endpoints) and lease_owner = owner order by endpoint_id for update;
      update work.webhook_queues q
         set lease_owner = null, lease_until = null, failures = r.failures,
             next_due_at = (select d.due_at from work.webhook_deliveries d
                             where d.endpoint_id = q.endpoint_id and d.status = 'pending'
                               and d.due_at >= q.next_due_at
                             order by d.due_at limit 1)
        from unnest(endpoints, failed) as r (endpoint_id, failures)
       where q.endpoint_id = r.endpoint_id and q.lease_owner = owner;
    end $$;
  `,
  // The version that a reactor must support to advance its checkpoint. A release whose reactor supports more kinds of
  // events raises it here together with the column's default: in a migration, before this release appends anything.
  '0905_webhook_reactor_version': `
    alter table work.webhook_reactor add column version integer not null default 1;
  `,
  // Version 2 supports `OrderCompleted`.
  '0906_webhook_reactor_version_2': `
    alter table work.webhook_reactor alter column version set default 2;
    update work.webhook_reactor set version = 2;
  `,
  // Token buckets (the generic cell rate algorithm). A subject is used up until `spent_until`, at most a minute ahead.
  // A request takes from all of its subjects or from none. The function returns the milliseconds to wait, 0 when it
  // took. The lock on the first subject, the account, covers the others, which have a row only after the first use. A
  // time that a fast clock stored counts for at most a minute.
  '0907_webhook_allowances': `
    create table work.webhook_allowances (
      subject text primary key,
      spent_until timestamptz not null
    );
    create index webhook_allowances_spent on work.webhook_allowances (spent_until);
    create function work.take_webhook_allowance(subjects text[], per_minute integer[], at timestamptz)
    returns integer language plpgsql as $$
    declare
      wait interval;
    begin
      insert into work.webhook_allowances (subject, spent_until) values (subjects[1], at) on conflict do nothing;
      perform 1 from work.webhook_allowances where subject = subjects[1] for update;
      update work.webhook_allowances set spent_until = at + interval '1 minute'
       where subject = any (subjects) and spent_until > at + interval '1 minute';
      select max(greatest(a.spent_until, at) + interval '1 minute' / g.n - at - interval '1 minute') into wait
        from unnest(subjects, per_minute) as g (subject, n) left join work.webhook_allowances a using (subject);
      if wait > interval '0' then
        return ceil(extract(epoch from wait) * 1000)::integer;
      end if;
      insert into work.webhook_allowances as a (subject, spent_until)
        select subject, at + interval '1 minute' / n from unnest(subjects, per_minute) as g (subject, n)
        on conflict (subject) do update
          set spent_until = greatest(a.spent_until, at) + (excluded.spent_until - at);
      return 0;
    end $$;
  `,
  // Endpoint health: the URL that answered 2xx, the end of its pause, and since when every attempt failed. A process of
  // an older release still uses the function with three arguments, which changes none of these.
  '0908_webhook_trust': `
    alter table work.webhook_queues
      add column proven_url_id text, add column hold_until timestamptz, add column failing_since timestamptz;
    create function work.release_webhook_queues(
      owner integer, endpoints text[], failed integer[], proven text[], held timestamptz[], failing timestamptz[])
    returns void language plpgsql as $$
    begin
      perform 1 from work.webhook_queues
        where endpoint_id = any (endpoints) and lease_owner = owner order by endpoint_id for update;
      update work.webhook_queues q
         set lease_owner = null, lease_until = null, failures = r.failures, proven_url_id = r.proven_url_id,
             hold_until = r.hold_until, failing_since = r.failing_since,
             next_due_at = (select d.due_at from work.webhook_deliveries d
                             where d.endpoint_id = q.endpoint_id and d.status = 'pending'
                               and d.due_at >= q.next_due_at
                             order by d.due_at limit 1)
        from unnest(endpoints, failed, proven, held, failing)
          as r (endpoint_id, failures, proven_url_id, hold_until, failing_since)
       where q.endpoint_id = r.endpoint_id and q.lease_owner = owner;
    end $$;
  `,
  // Version 3 publishes the notice of a disabling, and sends a notice for one account to that account only.
  '0909_webhook_reactor_version_3': `
    alter table work.webhook_reactor alter column version set default 3;
    update work.webhook_reactor set version = 3;
  `,
  // The state of the former reactor is now in read tables (projections/webhook-causes.ts). The engine fills the queue
  // (projections/webhook-queue.ts) from the reactor's position on. What it has enqueued is no longer due. Its
  // unfinished lists are enqueued again, which changes nothing for endpoints that it had finished.
  '0910_webhooks_by_the_engine': `
    create table work.webhook_cancellations (
      position bigint primary key,
      endpoint_id text not null,
      account_id text not null,
      reason text not null,
      failing_since timestamptz,
      cause_id uuid not null,
      correlation_id text not null,
      caused_at timestamptz not null
    );
    create table work.webhook_enqueuing (
      single boolean primary key default true check (single),
      lineage uuid not null,
      due_after bigint not null,
      announced_position bigint not null,
      announced_endpoint text
    );
    create table work.webhook_fan_outs_left (cause_id text primary key);

    insert into engine.checkpoints (name, log_id, position, epoch, definitions, last_event)
      select 'webhook-queue', log_id, position, 0, '{}', last_event from work.webhook_reactor;
    insert into engine.checkpoints (name, log_id, position, epoch, definitions)
      select 'webhooks', log_id, 0, 0, '{}' from work.webhook_reactor;
    insert into work.webhook_enqueuing (lineage, due_after, announced_position)
      select c.lineage, r.position, r.position from work.webhook_reactor r, engine.checkpoints c
       where c.name = 'webhooks';
    insert into work.webhook_fan_outs_left (cause_id) select distinct cause_id::text from work.webhook_fan_out_targets;

    drop table work.webhook_reactor, work.webhook_endpoints, work.webhook_accounts, work.webhook_low_plans,
      work.webhook_fan_out_targets, work.webhook_fan_outs;
  `,
  // One of the queues (src/platform/work/migrations.ts). Endpoint health is stored with the queue owner.
  '1414_webhooks_queue': `
    insert into work.queue_owners (queue, owner, next_due_at, hold_until, memory)
      select 'webhooks', endpoint_id, next_due_at, hold_until,
             jsonb_build_object('failures', failures, 'provenUrlId', proven_url_id,
               'failingSince', to_char(failing_since at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
        from work.webhook_queues;
    drop table work.webhook_queues;
    drop function work.release_webhook_queues(integer, text[], integer[]);
    drop function work.release_webhook_queues(integer, text[], integer[], text[], timestamptz[], timestamptz[]);
    drop sequence work.webhook_workers;
    select work.tell_queue_of('webhooks', 'work.webhook_deliveries', 'endpoint_id');
  `,
  // Webhooks that could not be enqueued (enqueue.ts).
  '1820_webhook_enqueue_retries': `
    create table work.webhook_enqueue_retries (
      endpoint_id text not null,
      event text not null,
      resource text not null,
      position bigint not null,
      status text not null,
      due_at timestamptz not null,
      attempts integer not null default 0,
      finished_at timestamptz,
      result text,
      primary key (endpoint_id, event, resource)
    );
    select work.add_queue('webhook-enqueue-retries', 'work.webhook_enqueue_retries', 'endpoint_id');
  `,
}

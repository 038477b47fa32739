import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * Callbacks of payment providers, stored before they are answered. Only the reference is stored, not the content: it
 * may name a payer and is not trusted. Event ids are unique within one gateway only, so that a forged event of one
 * gateway cannot block an event of another one.
 */
export const migrations: Migrations = {
  '0800_gateway_inbox': `
    create table work.gateway_inbox (
      gateway_id text not null,
      event_id text not null,
      reference text not null,
      received_at timestamptz not null default clock_timestamp(),
      attempts integer not null default 0,
      next_at timestamptz not null default clock_timestamp(),
      done_at timestamptz,
      outcome text,
      primary key (gateway_id, event_id)
    );
    create index gateway_inbox_due on work.gateway_inbox (next_at) where done_at is null;
    create index gateway_inbox_done on work.gateway_inbox (done_at) where done_at is not null;
  `,
  '0803_gateway_inbox_fair': `
    create index gateway_inbox_due_by_gateway on work.gateway_inbox (gateway_id, next_at) where done_at is null;
    drop index work.gateway_inbox_due;
  `,
  // One of the queues (src/platform/work/migrations.ts). It has no failed state: a callback is retried without limit.
  '1412_gateway_inbox_queue': `
    alter table work.gateway_inbox rename column next_at to due_at;
    alter table work.gateway_inbox rename column done_at to finished_at;
    alter table work.gateway_inbox rename column outcome to result;
    alter table work.gateway_inbox alter column due_at drop default;
    alter table work.gateway_inbox add column status text not null default 'pending';
    update work.gateway_inbox set status = 'done' where finished_at is not null;
    drop index work.gateway_inbox_due_by_gateway;
    select work.add_queue('payment-callbacks', 'work.gateway_inbox', 'gateway_id');
  `,
}

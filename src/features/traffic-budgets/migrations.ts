import type { Migrations } from '../../platform/postgres/migrate.ts'

export const migrations: Migrations = {
  /**
   * E-mails about used traffic budgets, one permanent row for each, so that a rebuild sends no e-mail twice. `position`
   * is that of the event in the log of `lineage` (engine.checkpoints).
   */
  '4950_traffic_budget_mails': `
    create table work.traffic_budget_mails (
      reached_id text collate "C" primary key,
      account_id text not null,
      position bigint not null,
      lineage uuid not null,
      status text not null default 'pending',
      attempts integer not null default 0,
      due_at timestamptz not null,
      finished_at timestamptz,
      result text
    );
    create index traffic_budget_mails_taken on work.traffic_budget_mails (lineage, position);
    select work.add_queue('traffic-budget-mails', 'work.traffic_budget_mails', 'account_id');
  `,
}

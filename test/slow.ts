/**
 * Files of `npm run test:all` only, by a part of their path, with the fast tests of the same rules. Each takes ten
 * seconds of processor time or more. They start first, the longest of all.
 */
export const slow: Readonly<Record<string, string>> = {
  'test/features/console/browser':
    'test/platform/ui/pages, test/features/console/customer, test/features/console/operator',
  'test/features/console/tasks': 'test/features/console/customer, test/features/plans/pages',
  'test/features/console/quoted-forms': 'test/features/console/customer',
  'test/docs/operations': 'test/docs/readme, test/docs/links, test/app/help',
  'test/docs/subscriptions': 'test/features/subscriptions/renewals',
  'test/audit/checked-events': 'test/audit/seals/, test/audit/signatures/',
  'test/app/doctor/doctor': 'test/app/doctor/sessions, test/app/ports',
  'test/crash/payments': 'test/features/deposits/prefix-chaos, test/features/deposits/callbacks',
  'test/model/': 'test/golden, test/features/orders, test/domain',
  'test/features/orders/prefix-log': 'test/features/orders/prefix-races',
  'test/crash/orders': 'test/features/orders/prefix-races, test/races/two-processes',
  'test/crash/scrapes': 'test/features/scrapers/service',
  'test/crash/topups': 'test/features/deposits/auto-topup',
  'test/crash/customers': 'test/features/orders/customers, test/races/two-processes',
  'test/features/deposits/outages': 'test/features/deposits/wallet, test/features/deposits/poll',
  'test/features/deposits/long-outages': 'test/features/deposits/poll',
  'test/gateway/admit/accounting': 'test/gateway/admit/budget',
  'test/gateway/admit/outage': 'test/gateway/admit/budget',
  'test/gateway/admit/speed': 'test/gateway/admit/shared-speed',
  'test/gateway/browser': 'test/gateway/accept/modes',
  'test/app/start': 'test/docs/readme, test/app/where, test/app/terminal, test/app/config',
  'test/app/shared-database': 'test/app/two-roles, test/app/refusing-postgres',
  'test/app/hangup': 'test/app/shutdown',
  'test/app/absent-log': 'test/platform/eventstore/eventstoredb-offline',
  'test/upgrade/': 'test/golden, test/platform/postgres/migrate',
  'test/platform/postgres/timed-statements': 'test/platform/postgres/in-one-trip',
  'test/platform/postgres/embedded': 'test/docs/readme, test/app/where',
  'test/platform/eventstore/eventstoredb-cluster': 'test/platform/eventstore/eventstoredb-offline',
  'test/features/backup/eventstoredb': 'test/features/backup/backup, test/features/exports/import',
  'test/features/backup/postgres-tools': 'test/features/backup/backup',
  'test/features/backup/restored-log': 'test/features/backup/backup',
  'test/features/exports/agreement': 'test/features/exports/export, test/features/exports/references',
  'test/features/webhooks/chaos': 'test/features/webhooks/outages, test/features/webhooks/enqueue',
  'test/features/webhooks/races': 'test/features/webhooks/enqueue, test/features/webhooks/routes',
  'test/features/catalog/operating': 'test/docs/catalog, test/features/catalog/snapshots',
  'test/features/scrapers/interface': 'test/platform/api-docs/openapi, test/features/scrapers/service',
  'test/gateway/bounds': 'test/gateway/accept/limits',
  'test/platform/eventstore/prefix-log': 'test/platform/commands/conflicts',
  'test/races/scrapes': 'test/features/scrapers/rate, test/races/two-processes',
  'test/features/free-list/cycle': 'test/features/free-list/checker, test/features/free-list/judge',
  'test/features/free-list/million': 'test/features/free-list/checker, test/features/free-list/schedule',
  'test/features/scrapers/model': 'test/domain/scrapers, test/features/scrapers/service',
  'test/contract/fuzz': 'test/platform/http/fuzz, test/contract/nulls',
  'test/contract/isolation': 'test/features/resellers/isolation',
  'test/audit/mutations': 'test/audit/verify, test/audit/checks',
  'test/audit/damaged': 'test/audit/verify, test/audit/checks',
  'test/projections/rebuild-http': 'test/platform/projections/rebuild',
  'test/projections/rebuilt-services': 'test/platform/projections/rebuild',
  'test/contract/codes':
    'test/contract/document, test/contract/nulls, test/platform/http/checks, test/platform/http/logging',
  'test/audit/violations': 'test/audit/invariant-monitor, test/audit/invariants/, test/audit/checks/',
  'test/audit/live-server': 'test/audit/verify, test/audit/routes',
  'test/audit/valid-histories': 'test/audit/verify, test/domain/deposits/invariants',
  'test/audit/cli': 'test/audit/verify, test/audit/external-seals/, test/audit/seals/sealing',
  'test/races/paid-orders': 'test/races/two-processes, test/features/orders/prefix-races',
  'test/races/takeover': 'test/platform/projections/processes',
  'test/crash/batches': 'test/features/scrapers/batches',
  'test/architecture/paths': 'test/architecture/tunnel-path, test/architecture/imports',
  'test/platform/http/memory': 'test/platform/http/edges, test/platform/http/connections',
  'test/bench/command-line': 'test/platform/cli/output',
  'test/tools/dev/new-feature': 'test/tools/dev/new.test, test/tools/dev/templates',
}

/** The position in the list, 0 for files of the fast set; the longest files have the highest. */
export const slowness = (file: string): number => {
  const parts = Object.keys(slow)
  const at = parts.findIndex((part) => file.includes(part))
  return at < 0 ? 0 : parts.length - at
}

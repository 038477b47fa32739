import { bareCommand, command, type Register } from '../platform/cli/command.ts'
import { argument, defaulted, flag, option, required, wholeNumber } from '../platform/cli/input.ts'
import type { Config } from './config.ts'

const lists = () => import('./run-list-commands.ts')
const work = () => import('./run-work-commands.ts')

/** Literals, because importing the lists loads all features and read models. */
const queueNames =
  'webhooks, payment-callbacks, messages, deposit-looks, dispute-looks, scrape-batches, webhook-enqueue-retries, low-balance-mails, topup-mails, dispute-mails, traffic-budget-mails'
const readModelNames =
  'balances, customers, orders, order-payments, open-orders, open-movements, open-deposit-refunds, open-scrapes, plans, proxies, stock, webhooks, accounts, catalog, reseller_terms, notices, deposits, gateway-changes, unmatched-movements, reversals, topups, traffic-budgets, low-traffic, subscriptions, exits, proposals, journal, margins, scrape-usage, webhook-causes, laws'

const queue = required('<name>', `one of ${queueNames}`)

export const deadInput = {
  queue,
  limit: defaulted('<n>', 'at most this many', 100, wholeNumber(1, 1_000)),
}

export const retryInput = {
  queue,
  item: option('<id...>', 'items as "work dead" lists them'),
  all: flag('all dead items; of webhooks the oldest 1000'),
}

/** The commands of the program that belong to no feature. */
export const appCommands: readonly Register<Config>[] = [
  bareCommand({
    name: 'routes',
    input: { api: flag('only the operations of the interface description') },
    columns: {
      method: 'method',
      path: 'path',
      access: 'accessText',
      operation: 'operation',
      summary: 'summary',
    },
    run: async () => (await lists()).routes,
  }),
  command({
    name: 'workers',
    details: `A worker runs once per server, gateway or free-list process, or in one process of the cluster at a time.
PROCESSES counts the processes that run it now. The times are from the last report of a process, at most a minute old; a
worker that begins to fail or works again is reported within a second.`,
    examples: [
      `bin/farebox workers --json | jq '.workers[] | select(.lastRun.succeeded == false) | {name, lastError}'`,
    ],
    columns: {
      name: 'name',
      'what it does': 'about',
      runs: 'trigger',
      'once per': 'oncePer',
      processes: 'processes',
      'last run': ({ lastRun }) => lastRun?.startedAt ?? 'never',
      took: ({ lastRun }) => (lastRun?.tookMs == null ? '-' : `${lastRun.tookMs} ms`),
      state: 'state',
      'last error': ({ lastError }) => lastError && `${lastError.at} ${lastError.message}`,
    },
    run: async () => (await lists()).listWorkers,
  }),
  bareCommand({
    name: 'events',
    details: '"ledger events" prints their fields, as a page or as JSON Schema.',
    columns: { event: 'type', stream: 'stream', meaning: 'means' },
    run: async () => (await lists()).events,
  }),
  command({
    name: 'work queues',
    about: 'list the queues: waiting, due and dead items',
    columns: {
      queue: 'queue',
      waiting: 'waiting',
      due: 'due',
      'oldest due': 'oldestDueAt',
      'owners at work': 'owners',
      dead: 'dead',
    },
    run: async () => (await work()).listQueues,
  }),
  command({
    name: 'work dead',
    about: 'list the dead items of a queue, the latest first',
    input: deadInput,
    columns: {
      item: 'item',
      owner: 'owner',
      attempts: 'attempts',
      'given up': 'finishedAt',
      why: 'result',
    },
    run: async () => (await work()).dead,
  }),
  command({
    name: 'work retry',
    about: 'retry dead items of a queue now, with all their attempts',
    input: retryInput,
    run: async () => (await work()).retry,
  }),
  command({
    name: 'projections rebuild',
    about: 'fill new read models from the log, compare them with the live ones, and replace these',
    input: {
      name: argument('<name...>', `read models, or all: ${readModelNames}`),
      check: flag('compare only: leave the live tables unchanged, exit code 1 if they differ'),
    },
    run: async () => (await import('./run-projection-commands.ts')).rebuildModels,
  }),
  bareCommand({
    name: 'audit',
    details: `"npm start" starts the auditor in a process of its own. Run it by itself on another machine, or where a server
runs with roles.`,
    run: async () => async (_context, _input, systemClock) => {
      await (await import('./auditor.ts')).runAuditor(systemClock)
      return new Promise<never>(() => undefined)
    },
  }),
  bareCommand({ name: 'doctor', run: async () => (await import('./doctor/doctor.ts')).examine }),
  bareCommand({ name: 'settings', run: async () => (await import('./settings-command.ts')).printSettings }),
]

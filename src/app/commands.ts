import type { CliContext } from '../platform/cli/cli-context.ts'
import { commandGroup, type Register } from '../platform/cli/command.ts'
import type { Config } from './config.ts'

type Load = () => Promise<readonly Register<Config>[]>

const app: Load = async () => (await import('./app-commands.ts')).appCommands
const accounts: Load = async () => (await import('../features/accounts/commands.ts')).commands
const signIn: Load = async () => (await import('../features/sign-in/commands.ts')).commands
const approvals: Load = async () => (await import('../features/approvals/commands.ts')).commands
const resellers: Load = async () => (await import('../features/resellers/commands.ts')).commands
const finance: Load = async () => (await import('../features/finance/commands.ts')).commands
const wallet: Load = async () => (await import('../features/wallet/commands.ts')).commands
const catalog: Load = async () => (await import('../features/catalog/commands.ts')).commands
const stock: Load = async () => (await import('../features/stock/commands.ts')).commands
const exits: Load = async () => (await import('../features/exits/commands.ts')).commands
const freeList: Load = async () => (await import('../features/free-list/commands.ts')).commands
const plans: Load = async () => (await import('../features/plans/commands.ts')).commands
const trafficBudgets: Load = async () => (await import('../features/traffic-budgets/commands.ts')).commands
const proxies: Load = async () => (await import('../features/proxies/commands.ts')).commands
const subscriptions: Load = async () => (await import('../features/subscriptions/commands.ts')).commands
const deposits: Load = async () => (await import('../features/deposits/commands.ts')).commands
const webhooks: Load = async () => (await import('../features/webhooks/commands.ts')).commands
const notices: Load = async () => (await import('../features/notices/commands.ts')).commands
const exports: Load = async () => (await import('../features/exports/commands.ts')).commands
const reconciliation: Load = async () => (await import('../features/reconciliation/commands.ts')).commands
const audit: Load = async () => (await import('../audit/commands.ts')).commands

const orders: Load = async () => {
  const { ordersCommands } = await import('../features/orders/commands.ts')
  const { settleTraffic } = await import('../features/plans/commands.ts')
  return ordersCommands(settleTraffic)
}

const backup: Load = async () => {
  const { backupCommands } = await import('../features/backup/commands.ts')
  return backupCommands(async () => (await import('./migrations.ts')).allMigrations)
}

const scrapers: Load = async () => {
  const { scrapersCommands } = await import('../features/scrapers/commands.ts')
  // The sandbox is loaded only by commands that use it.
  return scrapersCommands(async (config: Config, { pool }: CliContext) => {
    const { scrapersSandboxUrl } = await import('./open-sandbox.ts')
    const { withUsedPorts } = await import('./used-ports.ts')
    return { settings: config.scrapers, sandboxUrl: scrapersSandboxUrl(await withUsedPorts(config, pool)) }
  })
}

/**
 * All commands of the program, in the order of `--help`: name, description, and what loads it and its subcommands. What
 * is loaded may have subcommands of other commands, too.
 */
const commandList: readonly (readonly [name: string, about: string, ...load: readonly Load[]])[] = [
  ['accounts', 'create, list, show and block accounts', accounts, signIn],
  ['keys', 'create, cap, roll, revoke and list API keys', accounts],
  ['staff', 'who may use the console of the service, and their roles', signIn],
  ['wallet', 'credit and adjust wallets by hand, and the threshold of their low balance', wallet],
  ['catalog', 'the products and their prices, from one JSON file', catalog],
  ['stock', 'the addresses of dedicated products', stock],
  ['exits', 'the exits of the proxy gateway', exits],
  ['freelist', 'free proxies: feeds, candidates, checks', freeList],
  ['orders', 'list, show and refund orders', orders],
  [
    'four-eyes',
    'the amount from which credits, adjustments and refunds by hand need two operators',
    approvals,
  ],
  ['proposals', "one operator's proposals, which another operator approves", approvals],
  ['plans', 'list and show plans, and report their traffic', plans],
  ['traffic-budgets', 'limit the traffic of plans and customers by day, week or month', trafficBudgets],
  ['proxies', 'list and show rented addresses, without passwords', proxies],
  ['subscriptions', 'list and show subscriptions', subscriptions],
  ['deposits', 'list and show deposits, refund them, and resolve reports of providers', deposits],
  ['webhooks', 'list and show webhook endpoints, without secrets', webhooks],
  ['customers', "list resellers' customers and move their credit by hand", resellers],
  ['reseller', "resellers' prices, shops and gateways", resellers],
  ['notices', 'publish notices to accounts: in the feed, and as webhook announcement.published', notices],
  ['ledger', 'audit the log: balances, replay, verify, seals, export, periods', finance, exports, audit],
  [
    'finance',
    'tokens for the books over HTTP, and reconciliation with statements of providers',
    finance,
    reconciliation,
  ],
  ['backup', 'back up and restore the contents of Postgres', backup],
  ['projections', 'rebuild read models from the log', app],
  ['scrapers', 'the scrapers: prices, health, and a test call', scrapers],
  ['work', 'list the work queues, and retry dead items', app],
  ['audit', 'run the auditor, which checks and seals the log, until Ctrl-C', app],
  ['routes', 'list every route of the server: method, path, access and summary', app],
  ['workers', 'list the background workers: interval, process, last run and last error', app],
  ['events', 'list every event type with its stream and its meaning', app],
  [
    'doctor',
    'check everything: data, server, scrapers, sessions of the database, clock, log, read models, seals and their delivery, violations, guards of the database, durability, queues, verification; exit code 1 if anything is wrong',
    app,
  ],
  ['settings', 'list every setting: purpose, accepted values, default, effective value and its source', app],
]

/** The registrations of these commands, and the names and descriptions of all. */
const registrationsOf = async (commands: typeof commandList): Promise<readonly Register<Config>[]> => {
  const loads = new Set(commands.flatMap(([, , ...loads]) => loads))
  const loaded = await Promise.all([...loads].map((load) => load()))
  return [...commandList.map(([name, about]) => commandGroup(name, about)), ...loaded.flat()]
}

/**
 * The registrations of the command in `args`. Other commands are registered by name only: loading all takes most of a
 * second.
 */
export const registrationsFor = (args: readonly string[]): Promise<readonly Register<Config>[]> => {
  const [firstWord, secondWord] = args.filter((arg) => !arg.startsWith('-'))
  const commandName = firstWord === 'help' ? secondWord : firstWord
  return registrationsOf(commandList.filter(([name]) => name === commandName))
}

/** The registrations of every command. */
export const allRegistrations = (): Promise<readonly Register<Config>[]> => registrationsOf(commandList)

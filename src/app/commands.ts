import type { Command } from 'commander'
import { type Cli, type CliContext, groupCommand } from '../platform/cli/cli-context.ts'
import type { Config } from './config.ts'

/** Adds commands to the program: `registerX(program, cli)` of a feature. */
export type Register = (program: Command, cli: Cli<Config>) => void

/** A top-level command, which may have subcommands. */
type TopLevelCommand = {
  readonly name: string
  readonly about: string
  /** Loads the functions that register it. Some of them register other commands, too. */
  load(): Promise<readonly Register[]>
}

const accounts = async () => (await import('../features/accounts/commands.ts')).commands
const signIn = async () => (await import('../features/sign-in/commands.ts')).commands
const approvals = async () => (await import('../features/approvals/commands.ts')).commands
const resellers = async () => (await import('../features/resellers/commands.ts')).commands
const finance = async () => (await import('../features/finance/commands.ts')).commands
const lists = async () => [(await import('./list-commands.ts')).registerLists]

/** All top-level commands, in the order of `--help`. */
const commandList: readonly TopLevelCommand[] = [
  {
    name: 'accounts',
    about: 'create, list, show and block accounts',
    load: async () => [...(await accounts()), ...(await signIn())],
  },
  { name: 'keys', about: 'issue, cap, roll, revoke and list API keys', load: accounts },
  { name: 'staff', about: 'who of the service may use the console, and as what', load: signIn },
  {
    name: 'wallet',
    about: 'credit and adjust wallets by hand',
    load: async () => (await import('../features/wallet/commands.ts')).commands,
  },
  {
    name: 'catalog',
    about: 'what is sold, at which prices, from one JSON file',
    load: async () => (await import('../features/catalog/commands.ts')).commands,
  },
  {
    name: 'stock',
    about: 'the addresses that dedicated products are sold from',
    load: async () => (await import('../features/stock/commands.ts')).commands,
  },
  {
    name: 'exits',
    about: 'the ways out of the proxy gateway',
    load: async () => (await import('../features/exits/commands.ts')).commands,
  },
  {
    name: 'freelist',
    about: 'free proxies: feeds, the record, checks',
    load: async () => (await import('../features/free-list/commands.ts')).commands,
  },
  {
    name: 'orders',
    about: 'list orders, look at them and refund them',
    load: async () => {
      const { ordersCommands } = await import('../features/orders/commands.ts')
      const { settleTraffic } = await import('../features/plans/commands.ts')
      return [ordersCommands(settleTraffic)]
    },
  },
  {
    name: 'four-eyes',
    about: 'above which amount credits, adjustments and refunds by hand take two operators',
    load: approvals,
  },
  {
    name: 'proposals',
    about: 'what one operator proposed and another approves, by the name of the system user',
    load: approvals,
  },
  {
    name: 'plans',
    about: 'list plans, look at them and count traffic on them',
    load: async () => (await import('../features/plans/commands.ts')).commands,
  },
  {
    name: 'proxies',
    about: 'list rented addresses and look at them, without passwords',
    load: async () => (await import('../features/proxies/commands.ts')).commands,
  },
  {
    name: 'subscriptions',
    about: 'list subscriptions and look at them',
    load: async () => (await import('../features/subscriptions/commands.ts')).commands,
  },
  {
    name: 'deposits',
    about: 'list deposits and look at them',
    load: async () => (await import('../features/deposits/commands.ts')).commands,
  },
  {
    name: 'webhooks',
    about: 'list webhook endpoints and look at them, without secrets',
    load: async () => (await import('../features/webhooks/commands.ts')).commands,
  },
  { name: 'customers', about: "list resellers' customers and move their credit by hand", load: resellers },
  {
    name: 'reseller',
    about: 'what resellers pay, ask and show, and the gateways that take their money',
    load: resellers,
  },
  {
    name: 'notices',
    about: 'tell accounts something: the feed, and webhooks for announcement.published',
    load: async () => (await import('../features/notices/commands.ts')).commands,
  },
  {
    name: 'ledger',
    about: 'audit the log: balances, replay, verify, seals, export, periods',
    load: async () => [
      ...(await finance()),
      ...(await import('../features/exports/commands.ts')).commands,
      ...(await import('../audit/commands.ts')).commands,
    ],
  },
  {
    name: 'finance',
    about: 'who reads the books over HTTP, and statements of providers against the books',
    load: async () => [
      ...(await finance()),
      ...(await import('../features/reconciliation/commands.ts')).commands,
    ],
  },
  {
    name: 'backup',
    about: 'save all that Postgres holds, and bring it back',
    load: async () => {
      const { backupCommands } = await import('../features/backup/commands.ts')
      return [backupCommands(async () => (await import('./migrations.ts')).allMigrations)]
    },
  },
  {
    name: 'projections',
    about: 'make read models anew from the log',
    load: async () => {
      const { projectionsCommands } = await import('./projection-commands.ts')
      const invariants = async () => [(await import('../audit/invariants/invariants.ts')).invariantGroup]
      return [projectionsCommands(invariants)]
    },
  },
  {
    name: 'scrapers',
    about: 'the scrapers: prices, health, and a call to try one',
    load: async () => {
      const { scrapersCommands } = await import('../features/scrapers/commands.ts')
      // The sandbox is loaded only by commands that use it.
      const scraperDependencies = async (config: Config, { pool }: CliContext) => {
        const { scrapersSandboxUrl } = await import('./open-sandbox.ts')
        const { withUsedPorts } = await import('./used-ports.ts')
        return {
          settings: config.scrapers,
          sandboxUrl: scrapersSandboxUrl(await withUsedPorts(config, pool)),
        }
      }
      return [scrapersCommands(scraperDependencies)]
    },
  },
  {
    name: 'work',
    about: 'look at the work queues, and retry what was given up',
    load: async () => [(await import('./work-commands.ts')).registerWork],
  },
  {
    name: 'routes',
    about: 'list every route of the server: method, path, who may call it, and what it does',
    load: lists,
  },
  {
    name: 'workers',
    about: 'list what the service does by itself: how often, where, the last run and the last error',
    load: lists,
  },
  {
    name: 'events',
    about: 'list every type of event that the log can hold, with its stream and its meaning',
    load: lists,
  },
  {
    name: 'doctor',
    about:
      'look whether all is well: data, server, scrapers, sessions of the database, clock, log, read models, seals and where they go, violations, guards of the database, durability, queues, verification; exit code 1 when something is wrong',
    load: async () => [(await import('./doctor/command.ts')).registerDoctor],
  },
]

/** Registers the commands that are not loaded, by name only, and the description of every command. */
const describeCommands: Register = (program) => {
  for (const { name, about } of commandList) groupCommand(program, name).description(about)
}

const registrationsOf = async (
  topLevelCommands: readonly TopLevelCommand[],
): Promise<readonly Register[]> => {
  const loaded = await Promise.all(topLevelCommands.map(({ load }) => load()))
  return [...new Set(loaded.flat()), describeCommands]
}

/**
 * The registrations of the command in `args`. Other commands are registered by name only: loading all takes most of a
 * second.
 */
export const registrationsFor = (args: readonly string[]): Promise<readonly Register[]> => {
  const [firstWord, secondWord] = args.filter((arg) => !arg.startsWith('-'))
  const commandName = firstWord === 'help' ? secondWord : firstWord
  return registrationsOf(commandList.filter(({ name }) => name === commandName))
}

/** The registrations of every command. */
export const allRegistrations = (): Promise<readonly Register[]> => registrationsOf(commandList)

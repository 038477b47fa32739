import { type Command, InvalidArgumentError } from 'commander'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../kernel/clock.ts'
import type { Actor } from '../../kernel/event.ts'
import type { CommandRunner } from '../commands/command.ts'
import type { EventCodec } from '../eventstore/codec.ts'
import type { EventLog } from '../eventstore/port.ts'
import type { StoreSettings } from '../outgoing/open-object-store.ts'
import type { KeySettings, Keys } from '../vault/keys.ts'
import type { Scheduler } from '../work/scheduler.ts'
import type { CliOutput } from './output.ts'

/** The settings that commands of features ask for. */
export type CliSettings = KeySettings & {
  /** Null: the embedded Postgres. */
  readonly databaseUrl: string | null
  /** Null: who serves is the owner of the database, or it is the embedded one. */
  readonly databaseOwnerUrl: string | null
  /** Null: the log lives in Postgres. */
  readonly eventStoreUrl: string | null
  /** Where seals go; commands that read such a place use the same access. */
  readonly sealTarget: StoreSettings
  /** Whether events are checked against the invariants before they are sealed, and what a violation causes. */
  readonly laws: boolean
  readonly onViolation: string
  /** Where people reach the console; null: wherever the server listens. */
  readonly console: { readonly url: string | null }
  /** The port of the server. */
  readonly port: number
  /** What plans and rentals name as their connection. */
  readonly gateway: {
    readonly host: string
    readonly port: number
    readonly tls: { readonly port: number } | null
  }
}

/** What a command works with: the same settings, database, log and rules as the server's. Safe beside a running one. */
export type CliContext = {
  readonly config: CliSettings
  readonly keys: Keys
  readonly pool: pg.Pool
  readonly log: EventLog
  readonly codec: EventCodec
  readonly runner: CommandRunner
  /** The service's clock: Postgres's time and the development offset. */
  readonly clock: Clock
  readonly clockGuard: {
    /** How far the machine's clock was ahead of Postgres's at the last comparison, milliseconds; below zero behind. */
    aheadMs(): number
    /** Compares the clocks now. */
    check(): Promise<void>
  }
  /** Writes to standard error, from `warn` up unless LOG_LEVEL says otherwise. */
  readonly logger: Logger
  readonly scheduler: Scheduler
  /** The operator who runs the command, by the name of the system's user. */
  readonly actor: Actor
  /** One for each run of a command, `run_…`. */
  readonly correlationId: string
}

/** How a command opens its context. */
export type OpenOptions = {
  /** A Farebox is made where there is none. */
  readonly makes: boolean
  /** It appends what another log has, event by event, and signs nothing. */
  readonly copies?: boolean
}

export type OpenContext = (
  options?: OpenOptions,
) => Promise<{ readonly context: CliContext; close(): Promise<void> }>

/**
 * How features add commands: `registerX(program, cli)`, listed in the `commands.ts` of the feature, which `src/app/commands.ts` lists.
 *
 * @example
 * ```ts
 * export const registerWallet = (program: Command, cli: Cli): void => {
 *   const wallet = program.command('wallet')
 *   wallet
 *     .command('credit')
 *     .description('credit a wallet by hand')
 *     .requiredOption('--account <id>', 'the account')
 *     .requiredOption('--cents <n>', 'whole cents, above 0', wholeNumber(1, 500_000_000))
 *     .requiredOption('--reference <text>', 'what it is for; the same reference is credited once')
 *     .action(cli.action(async () => (await import('./run-commands.ts')).credit))
 * }
 *
 * // run-commands.ts
 * export const credit = async (context: CliContext, options: { account: string; cents: number }): Promise<CliOutput> => {
 *   const { answer } = await creditWallet(…)
 *   if (answer.status === 'refused') throw new CliMisuse(`no account has the id ${options.account}`, {}, 'not_found')
 *   return { json: { accountId, balanceCents }, text: `credited ${dollars(cents)}` }
 * }
 * ```
 */
export type Cli<Settings extends CliSettings = CliSettings> = {
  /** Of the system, for work without a context. */
  readonly clock: Clock
  /**
   * The action of a command: loads its work, opens the context, does the work, prints its output (`--json` stands on every
   * command), closes. The work is in a file of its own, because help must not load what it imports. Throw `CliRefusal` for an expected refusal (exit code 1). Commander itself refuses a wrong use (exit
   * code 2). The work gets the arguments as commander gives them: positional ones first, then the options. Where the
   * settings point to no Farebox the command is refused, unless it is one that `makes` it. One that `copies` a log signs
   * nothing, for what it appends is to be what stood there, event by event.
   */
  action<Arguments extends readonly unknown[]>(
    load: () => Promise<(context: CliContext, ...given: Arguments) => Promise<CliOutput>>,
    options?: OpenOptions,
  ): (...given: readonly unknown[]) => Promise<void>
  /** As `action`, for work that comes before there is a database of ours: it gets the settings and opens for itself. */
  bareAction<Arguments extends readonly unknown[]>(
    load: () => Promise<(config: Settings, ...given: Arguments) => Promise<CliOutput>>,
  ): (...given: readonly unknown[]) => Promise<void>
  /** As `bareAction`, for work that opens the context itself, because it tells why that fails. */
  openingAction<Arguments extends readonly unknown[]>(
    load: () => Promise<(config: Settings, open: OpenContext, ...given: Arguments) => Promise<CliOutput>>,
  ): (...given: readonly unknown[]) => Promise<void>
}

/** The command that several features put theirs under, such as `ledger`: made by the first of them. */
export const groupCommand = (parent: Command, name: string): Command =>
  parent.commands.find((command) => command.name() === name) ?? parent.command(name)

/** Parses an option that is a whole number from `min` to `max`. */
export const wholeNumber =
  (min: number, max: number = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = Number(text)
    if (!/^-?\d{1,16}$/.test(text) || !Number.isSafeInteger(value) || value < min || value > max)
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`)
    return value
  }

/** Parses an option that is a list of some of `values` with commas between. */
export const listOf =
  <const Value extends string>(values: readonly Value[]) =>
  (text: string): readonly Value[] => {
    const given = text.split(',').map((item) => item.trim())
    const wrong = given.filter((item) => !values.includes(item as Value))
    if (wrong.length > 0) throw new InvalidArgumentError(`It must be some of ${values.join(', ')}.`)
    return [...new Set(given)] as Value[]
  }

import { type Command, InvalidArgumentError } from 'commander'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../../kernel/clock.ts'
import type { Actor } from '../../kernel/event.ts'
import type { CommandRunner } from '../commands/command.ts'
import type { EventCodec } from '../eventstore/codec.ts'
import type { EventLog } from '../eventstore/port.ts'
import type { StoreSettings } from '../outgoing/open-object-store.ts'
import type { Db } from '../postgres/kysely.ts'
import type { KeySettings, Keys } from '../vault/keys.ts'
import type { Scheduler } from '../work/scheduler.ts'
import type { CliOutput } from './output.ts'

/** The settings that the commands of features need. */
export type CliSettings = KeySettings & {
  /** Null: the embedded Postgres. */
  readonly databaseUrl: string | null
  /** Null: the serving role owns the database, or Postgres is embedded. */
  readonly databaseOwnerUrl: string | null
  /** Null: the log is in Postgres. */
  readonly eventStoreUrl: string | null
  /** The storage of seals. Commands that read such storage use the same access. */
  readonly sealTarget: StoreSettings
  /** Whether events are checked against the invariants before they are sealed, and the action on a violation. */
  readonly laws: boolean
  readonly onViolation: string
  /** The address of the console for people; null: the address that the server listens on. */
  readonly console: { readonly url: string | null }
  /** The port of the server. */
  readonly port: number
  /** The connection data in plans and rentals. */
  readonly gateway: {
    readonly host: string
    readonly port: number
    readonly tls: { readonly port: number } | null
  }
}

/**
 * The context of a command: the same settings, database, log and rules as the server's. It is safe while a server runs.
 */
export type CliContext = {
  readonly config: CliSettings
  readonly keys: Keys
  readonly pool: pg.Pool
  /** Typed queries over `pool`. */
  readonly db: Db
  readonly log: EventLog
  readonly codec: EventCodec
  readonly runner: CommandRunner
  /** The service's clock: Postgres's time and the development offset. */
  readonly clock: Clock
  readonly clockGuard: {
    /** How far the machine's clock was ahead of Postgres's at the last comparison, milliseconds; negative: behind. */
    aheadMs(): number
    /** Compares the clocks now. */
    check(): Promise<void>
  }
  /** Writes to standard error, from `warn` up unless LOG_LEVEL says otherwise. */
  readonly logger: Logger
  readonly scheduler: Scheduler
  /** The operator who runs the command, by the name of the system user. */
  readonly actor: Actor
  /** Unique for each run of a command, `run_…`. */
  readonly correlationId: string
}

/** How a command opens its context. */
export type OpenOptions = {
  /** Creates the Farebox if there is none. */
  readonly makes: boolean
  /** The command appends the events of another log unchanged, and signs nothing. */
  readonly copies?: boolean
}

export type OpenContext = (
  options?: OpenOptions,
) => Promise<{ readonly context: CliContext; close(): Promise<void> }>

/**
 * How features add commands: `registerX(program, cli)`, listed in the `commands.ts` of the feature, which
 * `src/app/commands.ts` lists.
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
  /** The system's clock, for work without a context. */
  readonly clock: Clock
  /**
   * Creates the action of a command. It loads the work, opens the context, does the work, prints the output (every
   * command has `--json`) and closes the context. The work is in a separate file, because help must not load its
   * imports. The work receives the arguments in the order of commander: positional ones first, then the options.
   *
   * Throw `CliRefusal` for an expected refusal (exit code 1). Commander itself refuses wrong use (exit code 2). If the
   * settings point to no Farebox, the command is refused, unless `makes` is set. A command with `copies` appends events
   * of another log unchanged, so it signs nothing.
   */
  action<Arguments extends readonly unknown[]>(
    load: () => Promise<(context: CliContext, ...inputs: Arguments) => Promise<CliOutput>>,
    options?: OpenOptions,
  ): (...inputs: readonly unknown[]) => Promise<void>
  /** Like `action`, for work before the database exists. The work receives the settings and opens what it needs. */
  bareAction<Arguments extends readonly unknown[]>(
    load: () => Promise<(config: Settings, ...inputs: Arguments) => Promise<CliOutput>>,
  ): (...inputs: readonly unknown[]) => Promise<void>
  /** Like `bareAction`, for work that opens the context itself, because it reports why that fails. */
  openingAction<Arguments extends readonly unknown[]>(
    load: () => Promise<(config: Settings, open: OpenContext, ...inputs: Arguments) => Promise<CliOutput>>,
  ): (...inputs: readonly unknown[]) => Promise<void>
}

/** The parent command of several features, such as `ledger`. The first of them creates it. */
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

/** Parses an option that is a list of some of `values`, separated by commas. */
export const listOf =
  <const Value extends string>(values: readonly Value[]) =>
  (text: string): readonly Value[] => {
    const inputs = text.split(',').map((item) => item.trim())
    const invalid = inputs.filter((item) => !values.includes(item as Value))
    if (invalid.length > 0) throw new InvalidArgumentError(`It must be some of ${values.join(', ')}.`)
    return [...new Set(inputs)] as Value[]
  }

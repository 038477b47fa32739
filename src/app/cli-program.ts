import { Command, CommanderError } from 'commander'
import type { Clock } from '../kernel/clock.ts'
import type { CliContext, OpenOptions } from '../platform/cli/cli-context.ts'
import type { Cli, Register } from '../platform/cli/command.ts'
import { CliMisuse, CliRefusal } from '../platform/cli/output.ts'
import { CommandOverload } from '../platform/commands/command.ts'
import type { ApiError } from '../platform/http/errors.ts'
import { isDatabaseOutage, isWithoutRight } from '../platform/postgres/errors.ts'
import { FareboxNotInstalled } from '../platform/postgres/wait-for-database.ts'
import type { Config } from './config.ts'
import { version } from './version.ts'

type CliDependencies = {
  out(text: string): void
  err(text: string): void
  /** Milliseconds since the epoch. Without it, commands that need the time and no context fail. */
  readonly clock?: Clock
  /** The width of the terminal; undefined: no terminal. */
  readonly columns?: number | undefined
  /** The settings; default: none are set. */
  readonly environment?: NodeJS.ProcessEnv
  open(options: OpenOptions): Promise<{ readonly context: CliContext; close(): Promise<void> }>
}

const exitCodes = { done: 0, failed: 1, wrongUse: 2 } as const

const description = `Runs a Farebox: accounts, keys, wallets, catalogue, stock, orders.

Every command reads the same settings as the server and is safe while a server runs.
With --json, standard output is only the JSON (run it as "bin/farebox" or "npm run -s farebox --").
In another directory, run /path/to/farebox/bin/farebox: npx would fetch a package of that name from the registry.
Exit codes: 0 done, 1 refused or failed (nothing was changed unless the message says so), 2 wrong use.`

/** Errors that stop a start (src/app/open-core.ts), and their codes. */
const startRefusals: Readonly<Record<string, string>> = {
  SettingsRefused: 'invalid_settings',
  DataInUse: 'data_in_use',
  FareboxNotInstalled: 'no_farebox',
  DatabaseUnreachable: 'database_unreachable',
  LockHeld: 'database_busy',
  LogUnreachable: 'log_unreachable',
  MigrationRefused: 'database_refused',
  KeyRefused: 'key_refused',
  StartRefused: 'start_refused',
}

/** The input or the settings are wrong. */
const isWrongUse = (error: unknown): boolean =>
  error instanceof CliMisuse ||
  error instanceof FareboxNotInstalled ||
  (error instanceof Error && error.name === 'SettingsRefused')

/** Compared by name, because importing the class loads many modules that most commands never need. */
const isApiError = (error: unknown): error is ApiError => error instanceof Error && error.name === 'ApiError'

/** The refusal that an error means; null: the error is a bug. */
export const refusalOf = (error: unknown): CliRefusal | null => {
  if (error instanceof CliRefusal) return error
  if (isApiError(error)) return new CliRefusal(error.code, error.message, error.extra)
  if (error instanceof CommandOverload && (error.cause as Error | undefined)?.name === 'LogUnreachable')
    return refusalOf(error.cause)
  if (error instanceof CommandOverload)
    return new CliRefusal(
      'overloaded',
      `${messagesOf(error)}; "farebox doctor" checks the log. Run the command again, it does nothing twice`,
    )
  if (isDatabaseOutage(error))
    return new CliRefusal(
      'overloaded',
      `the database cannot answer: ${messagesOf(error)}; run the command again, it does nothing twice`,
    )
  if (isWithoutRight(error))
    return new CliRefusal(
      'database_refused',
      `${messagesOf(error)}; a command that checks or seals the log needs DATABASE_AUDITOR_URL if the auditor has a role of its own`,
    )
  const code = error instanceof Error ? startRefusals[error.name] : undefined
  return code === undefined ? null : new CliRefusal(code, (error as Error).message)
}

/**
 * Arguments after `--` are values. When commander refuses a command line, it does not report the options, so they are
 * read here.
 */
const asksForJson = (args: readonly string[]): boolean => {
  const end = args.indexOf('--')
  return args.slice(0, end === -1 ? undefined : end).includes('--json')
}

/** Commander's message on one line, without the usage of the command. */
const misuseOf = ({ code, message }: CommanderError): string => {
  if (code === 'commander.help') return 'there is no such command; --help lists them'
  if (message.includes("unknown option '--json'"))
    return '--json belongs after a command, e.g. bin/farebox settings --json; --help lists them'
  return message.replace(/^error: /, '').replaceAll('\n', ' ')
}

/**
 * The message of a failure and those of its causes, without repetitions. The stack is not included; LOG_LEVEL=debug
 * prints it.
 */
const messagesOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  const messages: string[] = []
  for (let currentError: unknown = error; currentError instanceof Error; currentError = currentError.cause) {
    const message = currentError.message || currentError.name
    if (!messages.some((earlier) => earlier.includes(message))) messages.push(message)
  }
  return messages.join(': ')
}

const printFailure = (dependencies: CliDependencies, json: boolean, error: unknown): void => {
  const refusal = refusalOf(error)
  const message = messagesOf(refusal ?? error)
  dependencies.err(`error: ${message}`)
  if (!refusal && process.env.LOG_LEVEL === 'debug' && error instanceof Error)
    dependencies.err(error.stack ?? '')
  if (json)
    dependencies.out(
      JSON.stringify({ error: message, code: refusal?.code ?? 'internal_error', ...refusal?.extra }),
    )
}

/**
 * Runs one command line and returns its exit code. Never throws.
 * @param args the arguments after the program's name
 */
export const runCli = async (
  args: readonly string[],
  registrations: readonly Register<Config>[],
  dependencies: CliDependencies,
): Promise<number> => {
  const { environment = {} } = dependencies
  if (Object.keys(environment).some((name) => /^FAREBOX_/i.test(name))) {
    const { unknownSettings } = await import('./settings-command.ts')
    for (const warning of unknownSettings(environment)) dependencies.err(`warning: ${warning}`)
  }
  let code: number = exitCodes.done
  const cli: Cli<Config> = {
    bare: {
      clock: dependencies.clock ?? (() => Number.NaN),
      environment,
      columns: dependencies.columns,
      readSettings: async () => (await import('./config.ts')).readConfig(environment),
      open: (options = { makes: false }) => dependencies.open(options),
    },
    perform: async (json, work) => {
      try {
        await work(({ json: result, text, failed }) => {
          if (json) dependencies.out(JSON.stringify(result))
          else if (text !== null) dependencies.out(text)
          if (failed) code = exitCodes.failed
        })
      } catch (error) {
        printFailure(dependencies, json, error)
        code = isWrongUse(error) ? exitCodes.wrongUse : exitCodes.failed
      }
    },
  }
  const program = new Command('farebox').description(description).showHelpAfterError('(--help shows how)')
  program.version(version)
  for (const register of registrations) register(program, cli)
  for (const command of [program, ...descendants(program)]) {
    // Long command names leave less than 40 columns, and below that commander does not wrap lines by default.
    command.configureHelp({
      sortSubcommands: false,
      showGlobalOptions: false,
      // The options of commands that are not loaded are unknown.
      ...(command === program && { subcommandTerm: (subcommand: Command) => subcommand.name() }),
      minWidthToWrap: 24,
    })
    command.exitOverride().configureOutput({
      writeOut: (text) => dependencies.out(text.trimEnd()),
      writeErr: (text) => dependencies.err(text.trimEnd()),
    })
  }
  try {
    await program.parseAsync([...args], { from: 'user' })
    return code
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    if (error.exitCode === 0) return exitCodes.done
    if (asksForJson(args)) dependencies.out(JSON.stringify({ error: misuseOf(error), code: 'invalid_usage' }))
    return exitCodes.wrongUse
  }
}

const descendants = (command: Command): readonly Command[] =>
  command.commands.flatMap((child) => [child, ...descendants(child)])

import { Command, CommanderError } from 'commander'
import type { Clock } from '../kernel/clock.ts'
import type { Cli, CliContext, OpenContext, OpenOptions } from '../platform/cli/cli-context.ts'
import { CliMisuse, type CliOutput, CliRefusal } from '../platform/cli/output.ts'
import { checkRequiredLast, requiredHelp } from '../platform/cli/required-options.ts'
import { CommandOverload } from '../platform/commands/command.ts'
import type { ApiError } from '../platform/http/errors.ts'
import { isDatabaseOutage } from '../platform/postgres/errors.ts'
import { FareboxNotInstalled } from '../platform/postgres/wait-for-database.ts'
import type { Register } from './commands.ts'
import type { Config } from './config.ts'
import { version } from './version.ts'

/** What the command line needs: its outputs, and how a command gets its context. */
export type CliDeps = {
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

Every command reads the same settings as the server and is safe beside a running one.
With --json, standard output carries nothing but the JSON (run it as "npx farebox" or "npm run -s farebox --").
From outside the directory of Farebox run its bin/farebox: npx would fetch a package of that name from the registry.
Exit codes: 0 done, 1 refused or failed (nothing was changed unless the message says so), 2 wrong use.`

const leafCommands = (command: Command): readonly Command[] =>
  command.commands.length === 0 ? [command] : command.commands.flatMap(leafCommands)

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

const refusalOf = (error: unknown): CliRefusal | null => {
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
    return '--json stands after a command, e.g. npx farebox settings --json; --help lists them'
  return message.replace(/^error: /, '').replaceAll('\n', ' ')
}

const print = (deps: CliDeps, json: boolean, output: CliOutput): void => {
  if (json) deps.out(JSON.stringify(output.json))
  else if (output.text !== null) deps.out(output.text)
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

const printFailure = (deps: CliDeps, json: boolean, error: unknown): void => {
  const refusal = refusalOf(error)
  const message = messagesOf(refusal ?? error)
  deps.err(`error: ${message}`)
  if (!refusal && process.env.LOG_LEVEL === 'debug' && error instanceof Error) deps.err(error.stack ?? '')
  if (json)
    deps.out(JSON.stringify({ error: message, code: refusal?.code ?? 'internal_error', ...refusal?.extra }))
}

/**
 * Runs one command line and returns its exit code. Never throws.
 * @param args the arguments after the program's name
 */
export const runCli = async (
  args: readonly string[],
  registrations: readonly Register[],
  deps: CliDeps,
): Promise<number> => {
  const { environment = {} } = deps
  if (Object.keys(environment).some((name) => /^FAREBOX_/i.test(name))) {
    const { unknownSettings } = await import('./settings-command.ts')
    for (const warning of unknownSettings(environment)) deps.err(`warning: ${warning}`)
  }
  const readSettings = async (): Promise<Config> => (await import('./config.ts')).readConfig(environment)
  let code: number = exitCodes.done
  /** Runs the work of a command, prints its output and sets the exit code. */
  const runAction = async (
    actionArguments: readonly unknown[],
    work: (done: (output: CliOutput) => void) => Promise<void>,
  ): Promise<void> => {
    const json = (actionArguments.at(-1) as Command).opts<{ json?: boolean }>().json === true
    try {
      await work((output) => {
        print(deps, json, output)
        if (output.failed) code = exitCodes.failed
      })
    } catch (error) {
      printFailure(deps, json, error)
      code = isWrongUse(error) ? exitCodes.wrongUse : exitCodes.failed
    }
  }
  const cli: Cli<Config> = {
    clock: deps.clock ?? (() => Number.NaN),
    action:
      <Arguments extends readonly unknown[]>(
        load: () => Promise<(context: CliContext, ...actionArguments: Arguments) => Promise<CliOutput>>,
        options: OpenOptions = { makes: false },
      ) =>
      (...actionArguments) =>
        runAction(actionArguments, async (done) => {
          // Opened first: without a Farebox the work is not loaded.
          const { context, close } = await deps.open(options)
          try {
            const work = await load()
            done(await work(context, ...(actionArguments.slice(0, -1) as unknown as Arguments)))
          } finally {
            await close()
          }
        }),
    bareAction:
      <Arguments extends readonly unknown[]>(
        load: () => Promise<(config: Config, ...actionArguments: Arguments) => Promise<CliOutput>>,
      ) =>
      (...actionArguments) =>
        runAction(actionArguments, async (done) => {
          const work = await load()
          done(await work(await readSettings(), ...(actionArguments.slice(0, -1) as unknown as Arguments)))
        }),
    openingAction:
      <Arguments extends readonly unknown[]>(
        load: () => Promise<
          (config: Config, open: OpenContext, ...actionArguments: Arguments) => Promise<CliOutput>
        >,
      ) =>
      (...actionArguments) =>
        runAction(actionArguments, async (done) => {
          const work = await load()
          const open = (options: OpenOptions = { makes: false }) => deps.open(options)
          done(
            await work(await readSettings(), open, ...(actionArguments.slice(0, -1) as unknown as Arguments)),
          )
        }),
  }
  const program = new Command('farebox').description(description).showHelpAfterError('(--help shows how)')
  program.version(version)
  for (const register of registrations) register(program, cli)
  program
    .command('settings')
    .description(
      'list every setting: what it is for, what it takes, its default, and what is in force here and where that comes from',
    )
    .action(async ({ json }: { readonly json?: boolean }) => {
      const { printSettings } = await import('./settings-command.ts')
      printSettings(deps, json === true)
    })
  for (const leaf of leafCommands(program)) leaf.option('--json', 'print nothing but JSON')
  const required = checkRequiredLast(program, leafCommands(program))
  for (const command of [program, ...descendants(program)]) {
    // Long command names leave less than 40 columns, and below that commander does not wrap lines by default.
    command.configureHelp({
      sortSubcommands: false,
      showGlobalOptions: false,
      // The options of commands that are not loaded are unknown.
      ...(command === program && { subcommandTerm: (subcommand: Command) => subcommand.name() }),
      minWidthToWrap: 24,
      ...requiredHelp(required),
    })
    command.exitOverride().configureOutput({
      writeOut: (text) => deps.out(text.trimEnd()),
      writeErr: (text) => deps.err(text.trimEnd()),
    })
  }
  try {
    await program.parseAsync([...args], { from: 'user' })
    return code
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    if (error.exitCode === 0) return exitCodes.done
    if (asksForJson(args)) deps.out(JSON.stringify({ error: misuseOf(error), code: 'invalid_usage' }))
    return exitCodes.wrongUse
  }
}

const descendants = (command: Command): readonly Command[] =>
  command.commands.flatMap((child) => [child, ...descendants(child)])

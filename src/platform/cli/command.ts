import { Argument, type Command, Option } from 'commander'
import type { Clock } from '../../kernel/clock.ts'
import type { BareContext, CliContext, CliSettings, OpenOptions } from './cli-context.ts'
import type { InputForm, InputForms, InputOf } from './input.ts'
import { type CliOutput, type Columns, type ListOutput, table } from './output.ts'

/** The program, for its commands. */
export type Cli<Settings extends CliSettings = CliSettings> = {
  readonly bare: BareContext<Settings>
  /** Does the work of a command, prints its output or its failure, and sets the exit code. */
  perform(json: boolean, work: (print: (output: CliOutput) => void) => Promise<void>): Promise<void>
}

/** Adds a command to the program. */
export type Register<Settings extends CliSettings = CliSettings> = (
  program: Command,
  cli: Cli<Settings>,
) => void

type Texts<Forms extends InputForms> = {
  /** The words of the command, e.g. `orders refund`. */
  readonly name: string
  /** Its description. Those of the program's own commands are in `src/app/commands.ts`. */
  readonly about?: string
  /** For the list of commands, if the description is long. */
  readonly summary?: string
  /** Its arguments and options. Every command has `--json`, too. */
  readonly input?: Forms
  /** Checks options together. Returns the message of a wrong use. */
  check?(input: InputOf<Forms>): string | null
  /** Paragraphs below the options. */
  readonly details?: string
  readonly examples?: readonly string[]
}

type Load<Context, Forms, Output> = () => Promise<
  (context: Context, input: InputOf<Forms>, systemClock: Clock) => Promise<Output>
>

/** A command that prints text. */
type TextCommand<Context, Forms extends InputForms> = Texts<Forms> & {
  /** Loads the work. It is in another file, because help must not load its imports. */
  readonly run: Load<Context, Forms, CliOutput>
}

/** A command that prints rows as a table. */
type ListCommand<Context, Forms extends InputForms, Row> = Texts<Forms> & {
  readonly run: Load<Context, Forms, ListOutput<Row>>
  readonly columns: Columns<Row>
  /** The text of a list without rows. */
  readonly empty?: string
}

type AnyOutput = CliOutput | ListOutput<never>

type Work<Context> = (context: Context, input: InputOf<InputForms>, systemClock: Clock) => Promise<AnyOutput>

type AnyCommand = Texts<InputForms> & {
  readonly run: () => Promise<unknown>
  readonly columns?: Columns<never>
  readonly empty?: string
}

/** Opens the context, does the work and closes the context. Events of the last moments may be missing in read tables. */
export const withContext = async <Value>(
  { open, explain }: Pick<BareContext, 'open' | 'explain'>,
  work: (context: CliContext) => Promise<Value>,
  options?: OpenOptions,
): Promise<Value> => {
  const { context, close } = await open(options)
  try {
    return await work(context).catch(async (error) => {
      throw await explain(error, context)
    })
  } finally {
    await close()
  }
}

/** The command of this name below `parent`. It is created if it does not exist. */
const groupCommand = (parent: Command, name: string): Command =>
  parent.commands.find((command) => command.name() === name) ?? parent.command(name)

const commandAt = (program: Command, name: string): Command => name.split(' ').reduce(groupCommand, program)

/** Describes a group of commands, such as `ledger seals`. */
export const commandGroup =
  (name: string, about: string): Register =>
  (program) => {
    commandAt(program, name).description(about)
  }

const flagOf = (key: string): string => key.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

const optionsOf = (key: string, input: InputForm<unknown>): readonly Option[] => {
  const flags = `--${flagOf(key)} ${input.form}`.trimEnd()
  const option = new Option(flags, `${input.about}${input.isRequired ? ' (required)' : ''}`)
  if (input.parse?.choices) option.choices(input.parse.choices)
  else if (input.parse) option.argParser(input.parse)
  if (input.fallback !== undefined) option.default(input.fallback)
  option.conflicts([...(input.conflicts ?? [])])
  return input.none === undefined ? [option] : [option, new Option(`--no-${flagOf(key)}`, input.none)]
}

const argumentOf = ({ form, about, parse }: InputForm<unknown>): Argument => {
  const argument = new Argument(form, about)
  return parse ? argument.argParser(parse) : argument
}

const helpBelow = ({ details, examples = [] }: AnyCommand): string =>
  [
    ...(details === undefined ? [] : [`\n${details}`]),
    ...(examples.length === 0
      ? []
      : [`\nExample${examples.length === 1 ? '' : 's'}:\n${examples.map((each) => `  ${each}`).join('\n')}`]),
  ].join('\n')

type Action = (input: InputOf<InputForms>, print: (output: AnyOutput) => void) => Promise<void>

/** Declares a command to commander. */
const declare = <Settings extends CliSettings>(
  declaration: AnyCommand,
  actionOf: (cli: Cli<Settings>) => Action,
): Register<Settings> => {
  const { name, about, summary, input = {}, check, columns, empty } = declaration
  return (program, cli) => {
    const command = commandAt(program, name)
    if (about !== undefined) command.description(about)
    if (summary !== undefined) command.summary(summary)
    const inputs = Object.entries(input)
    const positional = inputs.filter(([, { kind }]) => kind === 'argument')
    for (const [, form] of positional) command.addArgument(argumentOf(form))
    for (const [key, form] of inputs)
      if (form.kind === 'option') for (const option of optionsOf(key, form)) command.addOption(option)
    if (!('json' in input)) command.option('--json', 'print only JSON')
    command.addHelpText('after', helpBelow(declaration))

    const required = inputs.filter(([, { isRequired }]) => isRequired)
    const flags = required.map(([key, { form }]) => `--${flagOf(key)} ${form}`)
    if (flags.length > 0)
      command.usage([...flags, '[options]', ...positional.map(([, { form }]) => form)].join(' '))
    const action = actionOf(cli)
    command.action(async (...values: readonly unknown[]) => {
      const options = command.opts<Record<string, unknown>>()
      // Commander's own check comes before the one for unknown options: `--emial` would be a missing `--email`.
      const missing = flags.filter((_, at) => options[required[at]![0]] === undefined)
      if (missing.length > 0)
        command.error(
          `error: required option${missing.length === 1 ? '' : 's'} '${missing.join("', '")}' not specified`,
        )
      const checked = {
        ...Object.fromEntries(positional.map(([key], at) => [key, values[at]])),
        ...options,
      } as InputOf<InputForms>
      const problem = check?.(checked) ?? null
      if (problem !== null) command.error(`error: ${problem}`)
      await cli.perform(options.json === true, (print) =>
        action(checked, (output) => {
          if (!('rows' in output)) return print(output)
          const { rows, note, ...rest } = output
          const text = table(rows, columns ?? {}, output.empty ?? empty)
          print({ ...rest, text: note === undefined ? text : `${text}\n${note}` })
        }),
      )
    })
  }
}

/**
 * A command of features: name, help, arguments and options, and what it does. The program parses, prints (a table or text,
 * with `--json` JSON) and reports refusals.
 *
 * Throw `CliRefusal` for an expected refusal (exit code 1), `CliMisuse` for wrong input (exit code 2). If the settings
 * point to no Farebox, the command is refused, unless `open` says `makes`.
 *
 * @example
 * ```ts
 * command({
 *   name: 'wallet credit',
 *   about: 'credit a wallet by hand',
 *   input: {
 *     account: required('<id>', 'the account'),
 *     cents: required('<n>', 'whole cents above 0', wholeNumber(1)),
 *   },
 *   run: async () => (await import('./run-commands.ts')).credit,
 * })
 *
 * // run-commands.ts
 * export const credit = async (context: CliContext, { account, cents }: { account: string; cents: number }) => {
 *   const { answer } = await creditWallet(…)
 *   if (answer.status === 'refused') throw notFound(`no account has the id ${account}`)
 *   return { json: { account, balanceCents }, text: `credited ${dollars(cents)}` }
 * }
 * ```
 */
export function command<const Forms extends InputForms, Row>(
  declaration: ListCommand<CliContext, Forms, Row>,
  open?: OpenOptions,
): Register
export function command<const Forms extends InputForms>(
  declaration: TextCommand<CliContext, Forms>,
  open?: OpenOptions,
): Register
export function command(declaration: AnyCommand, open: OpenOptions = { makes: false }): Register {
  return declare(declaration, ({ bare }) => async (input, print) => {
    // Opened first: without a Farebox the work is not loaded.
    await withContext(
      bare,
      async (context) => {
        const work = (await declaration.run()) as Work<CliContext>
        print(await work(context, input, bare.clock))
      },
      open,
    )
  })
}

/** A command that reads settings and opens a Farebox by itself, or needs none. */
export function bareCommand<const Forms extends InputForms, Row, Settings extends CliSettings = CliSettings>(
  declaration: ListCommand<BareContext<Settings>, Forms, Row>,
): Register<Settings>
export function bareCommand<const Forms extends InputForms, Settings extends CliSettings = CliSettings>(
  declaration: TextCommand<BareContext<Settings>, Forms>,
): Register<Settings>
export function bareCommand<Settings extends CliSettings>(declaration: AnyCommand): Register<Settings> {
  return declare<Settings>(declaration, ({ bare }) => async (input, print) => {
    const work = (await declaration.run()) as Work<BareContext<Settings>>
    print(await work(bare, input, bare.clock))
  })
}

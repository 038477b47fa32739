import type { Command } from 'commander'
import type { z } from 'zod'
import { wrapped } from '../platform/cli/output.ts'
import { settings } from './config.ts'
import { type InForce, inForce, type Source } from './settings-in-force.ts'

/** A setting as an operator must know it to write it. */
export type SettingHelp = {
  readonly name: string
  /** What it takes, in the words of its refusal. */
  readonly takes: string
  /** As it would be written; null where there is none. */
  readonly default: string | null
  /** What it is for. */
  readonly help: string
}

/** A setting with what is in force. */
export type SettingInForce = SettingHelp & InForce

/** No setting takes null, and each says why. */
const takesOf = (schema: z.ZodType): string => schema.safeParse(null).error?.issues[0]?.message ?? ''

type Definition = {
  readonly type: string
  readonly defaultValue?: unknown
  readonly in?: { readonly def: Definition }
}

/** Defaults stand in the schemas as they would be written, before anything is made of them (`prefault`). */
const defaultOf = ({ type, defaultValue, in: written }: Definition): string | null => {
  if (type === 'prefault') return String(defaultValue)
  return written ? defaultOf(written.def) : null
}

/** Every setting of the environment, in the order of `src/app/config.ts`. Values that were given stand nowhere in it. */
export const settingsHelp = (): readonly SettingHelp[] =>
  Object.entries(settings).map(([name, schema]) => ({
    name,
    takes: takesOf(schema),
    default: defaultOf(schema.def as Definition),
    help: schema.description ?? '',
  }))

/** Every setting with what is in force in this environment; secrets are masked, and a wrong one is told. */
export const settingsInForce = (environment: NodeJS.ProcessEnv): readonly SettingInForce[] =>
  settingsHelp().map((setting) => ({
    ...setting,
    ...inForce(setting.name as keyof typeof settings, setting.default, environment),
  }))

/** Lines fit into this many columns where no terminal says how wide it is; a very wide one is not filled. */
const usualColumns = 100
const mostColumns = 120
const labels = { takes: 'takes    ', default: 'default  ', value: 'in force ' } as const

const sources: Readonly<Record<Source, string>> = {
  environment: 'from the environment',
  default: 'the default',
  file: 'a key in this file, made by the first start',
  none: 'not set',
}

const valueText = ({ value, source, problem }: InForce): string => {
  const wrong = problem === null ? '' : `; WRONG: expected ${problem}`
  return `${value === null ? '' : `${value}, `}${sources[source]}${wrong}`
}

const settingsText = (all: readonly SettingInForce[], columns: number): string => {
  const margin = Math.max(...all.map(({ name }) => name.length)) + 2
  const beside = (text: string, label = ''): readonly string[] =>
    wrapped(text, columns - margin - label.length).map(
      (line, at) => `${' '.repeat(margin)}${at === 0 ? label : ' '.repeat(label.length)}${line}`,
    )
  const entry = (setting: SettingInForce): string => {
    const lines = [
      ...beside(setting.help),
      ...beside(setting.takes, labels.takes),
      ...beside(setting.default ?? '-', labels.default),
      ...beside(valueText(setting), labels.value),
    ].join('\n')
    return `${setting.name}${lines.slice(setting.name.length)}`
  }
  return all.map(entry).join('\n\n')
}

/** `settings`: a wrong setting does not stop it, and is told. */
export const registerSettings = (
  program: Command,
  {
    out,
    columns = usualColumns,
    environment = {},
  }: {
    out(text: string): void
    readonly columns?: number | undefined
    readonly environment?: NodeJS.ProcessEnv
  },
): void => {
  program
    .command('settings')
    .description(
      'list every setting: what it is for, what it takes, its default, and what is in force here and where that comes from',
    )
    .action((options: { json?: boolean }) => {
      const all = settingsInForce(environment)
      out(options.json ? JSON.stringify(all) : settingsText(all, Math.min(columns, mostColumns)))
    })
}

import type { Command } from 'commander'
import type { z } from 'zod'
import { settings } from '../config.ts'
import { wrapped } from './output.ts'

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

/** Every setting of the environment, in the order of `src/config.ts`. Values that were given stand nowhere in it. */
export const settingsHelp = (): readonly SettingHelp[] =>
  Object.entries(settings).map(([name, schema]) => ({
    name,
    takes: takesOf(schema),
    default: defaultOf(schema.def as Definition),
    help: schema.description ?? '',
  }))

/** Lines fit into this many columns where no terminal says how wide it is; a very wide one is not filled. */
const usualColumns = 100
const mostColumns = 120
const labels = { takes: 'takes    ', default: 'default  ' } as const

const settingsText = (all: readonly SettingHelp[], columns: number): string => {
  const margin = Math.max(...all.map(({ name }) => name.length)) + 2
  const beside = (text: string, label = ''): readonly string[] =>
    wrapped(text, columns - margin - label.length).map(
      (line, at) => `${' '.repeat(margin)}${at === 0 ? label : ' '.repeat(label.length)}${line}`,
    )
  const entry = (setting: SettingHelp): string => {
    const lines = [
      ...beside(setting.help),
      ...beside(setting.takes, labels.takes),
      ...beside(setting.default ?? '-', labels.default),
    ].join('\n')
    return `${setting.name}${lines.slice(setting.name.length)}`
  }
  return all.map(entry).join('\n\n')
}

/** `settings`: it reads no setting, so that wrong ones do not stop it. */
export const registerSettings = (
  program: Command,
  { out, columns = usualColumns }: { out(text: string): void; readonly columns?: number | undefined },
): void => {
  program
    .command('settings')
    .description('list every setting of the environment: what it is for, what it takes and its default')
    .action((options: { json?: boolean }) => {
      const all = settingsHelp()
      out(options.json ? JSON.stringify(all) : settingsText(all, Math.min(columns, mostColumns)))
    })
}

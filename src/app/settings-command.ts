import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { z } from 'zod'
import { closestWord } from '../kernel/nearest-word.ts'
import type { BareContext } from '../platform/cli/cli-context.ts'
import { type CliOutput, wrapped } from '../platform/cli/output.ts'
import { parseAddress, shownAddress } from '../platform/eventstore/eventstoredb/address.ts'
import { parseStoreLocation, storeLocationText } from '../platform/outgoing/object-store.ts'
import { hiddenSettings, settings } from './config.ts'

/** The source of a setting's value. `none`: it has no value. */
export type Source = 'environment' | 'default' | 'file' | 'none'

/** The effective value of one setting. */
type EffectiveValue = {
  /** As written in the environment, secrets masked; null: none. */
  readonly value: string | null
  readonly source: Source
  /** The expected value; null: the value is valid. */
  readonly problem: string | null
}

export const masked = '(not shown)'

/** The part of an address that is not secret: without user, password and parameters. */
const publicAddress = (name: string, value: string): string => {
  try {
    if (name === 'EVENTSTORE_URL') return shownAddress(parseAddress(value))
    const { protocol, host, pathname } = new URL(value)
    return `${protocol}//${host}${pathname}`
  } catch {
    return masked
  }
}

const shown = (name: string, value: string): string => {
  if (name === 'FAREBOX_SEAL_TARGET') {
    const location = parseStoreLocation(value)
    return location === null ? masked : storeLocationText(location)
  }
  if (name === 'EVENTSTORE_URL' || name.startsWith('DATABASE_')) return publicAddress(name, value)
  return hiddenSettings.has(name) ? masked : value
}

const generatedFiles: Readonly<Record<string, string>> = {
  FAREBOX_MASTER_KEY: 'master.key',
  FAREBOX_SEAL_KEY: 'seal.key',
}

/** The file of a generated key, if this key is used. */
const generatedFile = (name: string, environment: NodeJS.ProcessEnv): string | null => {
  const file = generatedFiles[name]
  if (file === undefined || environment.DATABASE_URL) return null
  const data = settings.FAREBOX_DATA.safeParse(environment.FAREBOX_DATA || undefined)
  const path = data.success ? join(data.data, file) : null
  return path !== null && existsSync(path) ? path : null
}

/**
 * The effective value of a setting in this environment. A wrong value is not an error here.
 * @param fallback its default as written in the environment; null: none
 */
const effectiveValue = (
  name: keyof typeof settings,
  fallback: string | null,
  environment: NodeJS.ProcessEnv,
): EffectiveValue => {
  const schema: z.ZodType = settings[name]
  const environmentValue = environment[name]
  if (environmentValue !== undefined && environmentValue !== '') {
    const parsed = schema.safeParse(environmentValue)
    const value =
      parsed.success && name === 'FAREBOX_DATA' ? String(parsed.data) : shown(name, environmentValue)
    const problem = parsed.success ? null : (parsed.error.issues[0]?.message ?? 'another value')
    return { value, source: 'environment', problem }
  }
  const file = generatedFile(name, environment)
  if (file !== null) return { value: file, source: 'file', problem: null }
  if (fallback === null) return { value: null, source: 'none', problem: null }
  const value = name === 'FAREBOX_DATA' ? settings.FAREBOX_DATA.parse(fallback) : fallback
  return { value, source: 'default', problem: null }
}

/** The help for one setting. */
type SettingHelp = {
  readonly name: string
  /** The accepted values, in the words of its refusal. */
  readonly takes: string
  /** As written in the environment; null: none. */
  readonly default: string | null
  /** Its purpose. */
  readonly help: string
}

/** A setting with its effective value. */
type EffectiveSetting = SettingHelp & EffectiveValue

/** Parses null, which no setting accepts, to get the text of the refusal. */
const takesOf = (schema: z.ZodType): string => schema.safeParse(null).error?.issues[0]?.message ?? ''

type Definition = {
  readonly type: string
  readonly defaultValue?: unknown
  readonly in?: { readonly def: Definition }
}

/** The default before transformations (`prefault`), as written in the environment. */
const defaultOf = ({ type, defaultValue, in: inner }: Definition): string | null => {
  if (type === 'prefault') return String(defaultValue)
  return inner ? defaultOf(inner.def) : null
}

/** Every setting of the environment, in the order of `src/app/config.ts`, without its current value. */
export const settingsHelp = (): readonly SettingHelp[] =>
  Object.entries(settings).map(([name, schema]) => ({
    name,
    takes: takesOf(schema),
    default: defaultOf(schema.def as Definition),
    help: schema.description ?? '',
  }))

/**
 * Every setting with its effective value in this environment. Secrets are masked. A wrong value has a `problem`.
 */
export const effectiveSettings = (environment: NodeJS.ProcessEnv): readonly EffectiveSetting[] =>
  settingsHelp().map((setting) => ({
    ...setting,
    ...effectiveValue(setting.name as keyof typeof settings, setting.default, environment),
  }))

/** The line width without a terminal, and the largest one. */
const defaultColumns = 100
const maxColumns = 120
const labels = { takes: 'takes    ', default: 'default  ', value: 'in force ' } as const

const sources: Readonly<Record<Source, string>> = {
  environment: 'from the environment',
  default: 'the default',
  file: 'a key in this file, created by the first start',
  none: 'not set',
}

const valueText = ({ value, source, problem }: EffectiveValue): string => {
  const problemText = problem === null ? '' : `; WRONG: expected ${problem}`
  return `${value === null ? '' : `${value}, `}${sources[source]}${problemText}`
}

const settingsText = (all: readonly EffectiveSetting[], columns: number): string => {
  const margin = Math.max(...all.map(({ name }) => name.length)) + 2
  const indentedLines = (text: string, label = ''): readonly string[] =>
    wrapped(text, columns - margin - label.length).map(
      (line, at) => `${' '.repeat(margin)}${at === 0 ? label : ' '.repeat(label.length)}${line}`,
    )
  const entry = (setting: EffectiveSetting): string => {
    const lines = [
      ...indentedLines(setting.help),
      ...indentedLines(setting.takes, labels.takes),
      ...indentedLines(setting.default ?? '-', labels.default),
      ...indentedLines(valueText(setting), labels.value),
    ].join('\n')
    return `${setting.name}${lines.slice(setting.name.length)}`
  }
  return all.map(entry).join('\n\n')
}

/** Prints the settings. A wrong setting does not stop the command; the text has its problem. */
export const printSettings = async ({
  columns = defaultColumns,
  environment,
}: Pick<BareContext, 'columns' | 'environment'>): Promise<CliOutput> => {
  const all = effectiveSettings(environment)
  return { json: all, text: settingsText(all, Math.min(columns, maxColumns)) }
}

const knownNames = Object.keys(settings)

const prefix = 'FAREBOX_'
/** Settings of Farebox's own tests. */
const testPrefix = 'FAREBOX_TEST_'

/** The name for comparisons: `FAREBOX_PORT` matches `PORT`, and `farebox_data` matches `FAREBOX_DATA`. */
const comparableName = (name: string): string => {
  const upper = name.toUpperCase()
  return upper.startsWith(prefix) ? upper.slice(prefix.length) : upper
}

/**
 * One line for each variable that resembles a setting of Farebox but is none, with the most similar name. Values are
 * not printed. An empty variable counts as not set.
 */
export const unknownSettings = (environment: NodeJS.ProcessEnv): readonly string[] =>
  Object.entries(environment)
    .filter(([name, value]) => value !== '' && name.toUpperCase().startsWith(prefix))
    .map(([name]) => name)
    .filter((name) => !knownNames.includes(name) && !name.startsWith(testPrefix))
    .sort()
    .map((name) => {
      const closestName = closestWord(name, knownNames, comparableName)
      const hint = closestName === null ? '' : `; did you mean ${closestName}?`
      return `${name} is not a setting and has no effect${hint === '' ? '; "farebox settings" lists them all' : hint}`
    })

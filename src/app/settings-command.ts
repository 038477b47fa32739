import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { z } from 'zod'
import { closestWord } from '../kernel/nearest-word.ts'
import { wrapped } from '../platform/cli/output.ts'
import { parseAddress, shownAddress } from '../platform/eventstore/eventstoredb/address.ts'
import { parseStoreLocation, storeLocationText } from '../platform/outgoing/object-store.ts'
import { hiddenSettings, settings } from './config.ts'

/** Where the value of a setting comes from. `none`: it has none. */
export type Source = 'environment' | 'default' | 'file' | 'none'

/** What is in force for one setting. */
export type EffectiveValue = {
  /** As it would be written, secrets masked; null for none. */
  readonly value: string | null
  readonly source: Source
  /** Null when the value is taken, else what is expected. */
  readonly problem: string | null
}

export const masked = '(not shown)'

/** Of an address what names the place alone: user, password and parameters may be secret. */
const placeOf = (name: string, value: string): string => {
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
    const place = parseStoreLocation(value)
    return place === null ? masked : storeLocationText(place)
  }
  if (['DATABASE_URL', 'DATABASE_OWNER_URL', 'EVENTSTORE_URL'].includes(name)) return placeOf(name, value)
  return hiddenSettings.has(name) ? masked : value
}

const generatedFiles: Readonly<Record<string, string>> = {
  FAREBOX_MASTER_KEY: 'master.key',
  FAREBOX_SEAL_KEY: 'seal.key',
}

/** The file of a key that a start made, where it is the one that is used. */
const generatedFile = (name: string, environment: NodeJS.ProcessEnv): string | null => {
  const file = generatedFiles[name]
  if (file === undefined || environment.DATABASE_URL) return null
  const data = settings.FAREBOX_DATA.safeParse(environment.FAREBOX_DATA || undefined)
  const path = data.success ? join(data.data, file) : null
  return path !== null && existsSync(path) ? path : null
}

/**
 * What a setting comes to in this environment. A wrong one is no error here.
 * @param fallback Its default as it would be written, or null
 */
export const effectiveValue = (
  name: keyof typeof settings,
  fallback: string | null,
  environment: NodeJS.ProcessEnv,
): EffectiveValue => {
  const schema: z.ZodType = settings[name]
  const given = environment[name]
  if (given !== undefined && given !== '') {
    const parsed = schema.safeParse(given)
    const value = parsed.success && name === 'FAREBOX_DATA' ? String(parsed.data) : shown(name, given)
    const problem = parsed.success ? null : (parsed.error.issues[0]?.message ?? 'another value')
    return { value, source: 'environment', problem }
  }
  const file = generatedFile(name, environment)
  if (file !== null) return { value: file, source: 'file', problem: null }
  if (fallback === null) return { value: null, source: 'none', problem: null }
  const value = name === 'FAREBOX_DATA' ? settings.FAREBOX_DATA.parse(fallback) : fallback
  return { value, source: 'default', problem: null }
}

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
export type EffectiveSetting = SettingHelp & EffectiveValue

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
export const effectiveSettings = (environment: NodeJS.ProcessEnv): readonly EffectiveSetting[] =>
  settingsHelp().map((setting) => ({
    ...setting,
    ...effectiveValue(setting.name as keyof typeof settings, setting.default, environment),
  }))

/** Lines fit into this many columns where no terminal says how wide it is; a very wide one is not filled. */
const usualColumns = 100
const maxColumns = 120
const labels = { takes: 'takes    ', default: 'default  ', value: 'in force ' } as const

const sources: Readonly<Record<Source, string>> = {
  environment: 'from the environment',
  default: 'the default',
  file: 'a key in this file, made by the first start',
  none: 'not set',
}

const valueText = ({ value, source, problem }: EffectiveValue): string => {
  const wrong = problem === null ? '' : `; WRONG: expected ${problem}`
  return `${value === null ? '' : `${value}, `}${sources[source]}${wrong}`
}

const settingsText = (all: readonly EffectiveSetting[], columns: number): string => {
  const margin = Math.max(...all.map(({ name }) => name.length)) + 2
  const beside = (text: string, label = ''): readonly string[] =>
    wrapped(text, columns - margin - label.length).map(
      (line, at) => `${' '.repeat(margin)}${at === 0 ? label : ' '.repeat(label.length)}${line}`,
    )
  const entry = (setting: EffectiveSetting): string => {
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

/** The text of `settings`. A wrong setting does not stop the command; the text says what is wrong with it. */
export const printSettings = (
  {
    out,
    columns = usualColumns,
    environment = {},
  }: {
    out(text: string): void
    readonly columns?: number | undefined
    readonly environment?: NodeJS.ProcessEnv
  },
  json: boolean,
): void => {
  const all = effectiveSettings(environment)
  out(json ? JSON.stringify(all) : settingsText(all, Math.min(columns, maxColumns)))
}

const known = Object.keys(settings)

const prefix = 'FAREBOX_'
/** Of the tests of Farebox itself. */
const ofTests = 'FAREBOX_TEST_'

/** `FAREBOX_PORT` is meant as `PORT`, and `farebox_data` as `FAREBOX_DATA`. */
const bare = (name: string): string => {
  const upper = name.toUpperCase()
  return upper.startsWith(prefix) ? upper.slice(prefix.length) : upper
}

/**
 * One line for each variable that reads as a setting of Farebox and is none, with the name that is most likely meant.
 * Values are not told. An empty one counts as not set, as everywhere.
 */
export const unknownSettings = (environment: NodeJS.ProcessEnv): readonly string[] =>
  Object.entries(environment)
    .filter(([name, value]) => value !== '' && name.toUpperCase().startsWith(prefix))
    .map(([name]) => name)
    .filter((name) => !known.includes(name) && !name.startsWith(ofTests))
    .sort()
    .map((name) => {
      const meant = closestWord(name, known, bare)
      const hint = meant === null ? '' : `; did you mean ${meant}?`
      return `${name} is not a setting and has no effect${hint === '' ? '; "farebox settings" lists them all' : hint}`
    })

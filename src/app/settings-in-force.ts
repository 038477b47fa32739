import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { z } from 'zod'
import { parseAddress, shownAddress } from '../platform/eventstore/eventstoredb/address.ts'
import { parsePlace, placeName } from '../platform/outgoing/store/place.ts'
import { hiddenSettings, settings } from './config.ts'

/** Where the value of a setting comes from. `none`: it has none. */
export type Source = 'environment' | 'default' | 'file' | 'none'

/** What is in force for one setting. */
export type InForce = {
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
    const place = parsePlace(value)
    return place === null ? masked : placeName(place)
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
export const inForce = (
  name: keyof typeof settings,
  fallback: string | null,
  environment: NodeJS.ProcessEnv,
): InForce => {
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

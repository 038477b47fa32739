import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { isDatabaseOutage, StartRefused } from './errors.ts'

/** The settings do not point to a Farebox. The message says what to do. */
export class FareboxNotInstalled extends Error {
  override readonly name = 'FareboxNotInstalled'
}

const creationHint = 'A new one is made by "npm start", "farebox backup restore" and "farebox ledger import"'

/** The error for a directory without a Farebox. */
export const notInstalledIn = (dataDir: string): FareboxNotInstalled =>
  new FareboxNotInstalled(
    `${dataDir} holds no Farebox. Set FAREBOX_DATA to the directory that holds yours. ${creationHint}; nothing was made.`,
  )

/**
 * Rejects a database that was never migrated, e.g. of another program.
 * @param url the address of the database; the message contains only its host, port and name
 * @throws FareboxNotInstalled
 */
export const requireInstalled = async (pool: pg.Pool, url: string): Promise<void> => {
  const { rows } = await pool.query<{ made: boolean }>(
    "select to_regclass('public.farebox_migration') is not null as made",
  )
  if (rows[0]?.made === true) return
  const { host, pathname } = new URL(url)
  throw new FareboxNotInstalled(
    `the database ${pathname.slice(1)} on ${host} holds no Farebox. Is DATABASE_URL right? ${creationHint}; nothing was made.`,
  )
}

/** No connection in time. The message names the database, the time and the last error. */
export class DatabaseUnreachable extends Error {
  override readonly name = 'DatabaseUnreachable'
}

const pauseMs = 250

/** For a failure over several addresses node-postgres throws an AggregateError without a message. */
const reasonOf = (error: unknown): string => {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join(', ')
  return error instanceof Error ? error.message : String(error)
}

/** Reasons of the server's refusal by code. Waiting does not help. */
const refused: Readonly<Record<string, (url: URL) => string>> = {
  '28000': ({ username }) => `does not take the user "${username}"`,
  '28P01': ({ username }) => `refuses the user "${username}" or its password`,
  '3D000': ({ pathname }) => `has no database "${pathname.slice(1)}"`,
}

const refusalOf = (error: unknown, url: URL, setting: string): StartRefused | null => {
  const code = String((error as { code?: unknown } | null)?.code)
  const describe = Object.hasOwn(refused, code) ? refused[code] : undefined
  if (describe === undefined) return null
  return new StartRefused(`the Postgres on ${url.host} ${describe(url)}. Is ${setting} right?`, {
    cause: error,
  })
}

export type WaitOptions = {
  /** The address of the database. Messages contain only its host, port and name. */
  readonly url: string
  readonly withinMs: number
  /** The source of the address, for messages; default `DATABASE_URL`. */
  readonly setting?: string
  /** Called once, before the first wait. */
  readonly onWait?: (reason: string) => void
}

/**
 * Waits until the database accepts connections: it may be starting (e.g. as a service of the same composition), or
 * the machine may be busy.
 * @throws DatabaseUnreachable when the time is over; other errors at once, e.g. StartRefused for a wrong password
 */
export const waitForDatabase = async (pool: pg.Pool, options: WaitOptions): Promise<void> => {
  const { url, withinMs, onWait, setting = 'DATABASE_URL' } = options
  const endMs = performance.now() + withinMs
  for (let hasWaited = false; ; hasWaited = true) {
    try {
      await pool.query('select')
      return
    } catch (error) {
      const refusal = refusalOf(error, new URL(url), setting)
      if (refusal !== null) throw refusal
      if (!isDatabaseOutage(error)) throw error
      const reason = reasonOf(error)
      if (performance.now() + pauseMs >= endMs) {
        const { host, pathname } = new URL(url)
        throw new DatabaseUnreachable(
          `the database ${pathname.slice(1)} on ${host} gave no connection within ${Math.round(withinMs / 1000)} s (${reason}). Is it running, and is ${setting} right?`,
          { cause: error },
        )
      }
      if (!hasWaited) onWait?.(reason)
      await sleep(pauseMs)
    }
  }
}

import type pg from 'pg'
import type { Records } from '../records.ts'
import { planProxies } from './plan.ts'
import { type RunningProxy, startFreeProxies } from './proxies.ts'

export type SandboxProxies = { readonly running: readonly RunningProxy[]; close(): Promise<void> }

/** Each fault is there at least once, and every protocol and anonymity works somewhere. */
const howMany = 44

/** Where the feeds of a sandbox that runs are; other processes find them there. */
export type SandboxFeeds = { readonly baseUrl: string }

const kind = 'free proxies'

/**
 * Starts the free proxies of the sandbox. Their addresses are in 127.80.0.0/12, which Linux gives to every process; where a
 * system does not, there are none and a log line says so.
 */
export const openSandboxProxies = async (parts: {
  readonly records: Records
  readonly clock: () => number
  readonly logger: { warn(what: object, text: string): void }
}): Promise<SandboxProxies> => {
  try {
    return await startFreeProxies({ ...parts, planned: planProxies(howMany) })
  } catch (err) {
    parts.logger.warn({ err }, 'this system has no address 127.80.0.1: the sandbox runs no free proxies')
    return { running: [], close: async () => undefined }
  }
}

export const keepFeeds = async (records: Records, baseUrl: string): Promise<void> => {
  await records.change<SandboxFeeds>(kind, 'feeds', () => ({ baseUrl }))
}

/** Null: no sandbox serves any. */
export const readFeeds = async (records: Records): Promise<SandboxFeeds | null> =>
  records.get<SandboxFeeds>(kind, 'feeds')

/** What a former start kept: a service whose sandbox is off has none. */
export const forgetSandboxFeeds = async (pool: pg.Pool): Promise<void> => {
  await pool.query('delete from work.sandbox_records where kind = $1::text and id = $2::text', [
    kind,
    'feeds',
  ])
}

import { join } from 'node:path'
import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import { type Supervised, supervise } from '../supervise.ts'
import { isSandboxed } from './open-checking.ts'

const entry = join(import.meta.dirname, '../../freelist-worker.ts')

/** What runs is cut off, and checked again at the next start. */
const graceMs = 5_000

/** Whether there is anything to check with: a judge, or a sandbox that has one. */
export const canCheck = (config: Pick<Config, 'freelist' | 'payments'>): boolean =>
  config.freelist.judge !== null || isSandboxed(config)

/** Runs the checker of free proxies in a process of its own, without the flags that give the service a large heap. */
export const superviseFreelist = (deps: {
  readonly env: NodeJS.ProcessEnv
  readonly logger: Logger
}): Supervised =>
  supervise({ ...deps, entry, count: 1, flags: [], name: 'the checker of free proxies', graceMs })

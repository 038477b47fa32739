import { type CloseStack, closeOnFailure } from '../kernel/resource-scope.ts'
import type { Core } from '../platform/feature/core.ts'
import { deleteSandboxFeeds, openSandboxProxies } from '../sandbox/free-list/feeds.ts'
import { deleteSandboxExits, startSandboxExits } from '../sandbox/sandbox-exits.ts'
import { type Sandbox, startSandbox } from '../sandbox/sandbox-server.ts'
import { postgresRecords } from '../sandbox/sandbox-store.ts'
import { scrapersPath } from '../sandbox/scrapers/scraper-sandbox.ts'
import type { Config } from './config.ts'
import { portRefusal } from './listen.ts'

/**
 * The port of the sandbox in a server with these settings: the configured one, else the next after PORT; 0: any free
 * port.
 */
export const sandboxPort = (config: Pick<Config, 'payments' | 'port'>): number => {
  const { sandbox } = config.payments
  if (sandbox?.port !== null && sandbox?.port !== undefined) return sandbox.port
  return config.port === 0 || config.port === 65_535 ? 0 : config.port + 1
}

const startOwnSandbox = async (closing: CloseStack, core: Core, config: Config): Promise<Sandbox> => {
  const { pool, clock, logger } = core
  const logDebug = (message: string): void => logger.debug(`sandbox: ${message}`)
  const records = postgresRecords(pool)
  const exits = await startSandboxExits({ records, allowLoopback: config.gatewayAllowLoopback })
  closing.add(exits.close)
  const freeProxies = await openSandboxProxies({ records, clock, logger })
  closing.add(freeProxies.close)
  const start = (port: number) => startSandbox({ records, clock, port, say: logDebug, exits, freeProxies })
  const port = sandboxPort(config)
  try {
    return await start(port)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    if (config.payments.sandbox?.port !== null)
      throw portRefusal({ host: '127.0.0.1', port }, 'FAREBOX_SANDBOX_PORT', error) ?? error
    const sandbox = await start(0)
    logger.warn(
      { port, sandboxUrl: sandbox.baseUrl },
      'the port after PORT, where the sandbox would answer, is taken: it answers on a free one',
    )
    return sandbox
  }
}

/** The URL of the simulated scraper provider in a server with these settings; null: it does not run. */
export const scrapersSandboxUrl = (config: Pick<Config, 'payments' | 'port'>): string | null => {
  const { sandbox } = config.payments
  return sandbox && `${sandbox.url ?? `http://127.0.0.1:${sandboxPort(config)}`}${scrapersPath}`
}

/** The addresses of the sandbox, which simulates third parties. */
export type SandboxPlace = {
  /** Null: it does not run. */
  readonly url: string | null
  /** The mail server of a sandbox in this process; null: none runs here. */
  readonly smtpUrl: string | null
  /** The simulated scraper provider; null: it does not run. */
  readonly scrapersUrl: string | null
}

/**
 * Starts the sandbox if the settings have no real credential and this process serves HTTP. `ownPort` is its port; null:
 * it does not run in this process.
 */
export const openSandbox = async (
  core: Core,
  closing: CloseStack,
  { config, serves }: { readonly config: Config; readonly serves: boolean },
): Promise<SandboxPlace & { readonly ownPort: number | null }> => {
  const { pool, logger } = core
  const { sandbox } = config.payments
  const ownSandbox =
    sandbox && sandbox.url === null && serves
      ? await closeOnFailure((opening) => startOwnSandbox(opening, core, config))
      : null
  if (ownSandbox) closing.add(ownSandbox.close)
  if (sandbox === null && serves) await deleteSandboxExits(pool)
  if (ownSandbox === null && serves) await deleteSandboxFeeds(pool)
  const url = ownSandbox?.baseUrl ?? sandbox?.url ?? null
  if (url !== null)
    logger.warn({ sandboxUrl: url }, 'payments go to the sandbox: no real money is taken by this process')
  const ownPort = ownSandbox && Number(new URL(ownSandbox.baseUrl).port)
  return { url, ownPort, smtpUrl: ownSandbox?.smtpUrl ?? null, scrapersUrl: url && `${url}${scrapersPath}` }
}

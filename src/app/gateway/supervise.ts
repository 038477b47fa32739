import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { StartRefused } from '../../platform/postgres/start-refused.ts'
import type { Config } from '../config.ts'
import { type Supervised, supervise } from '../supervise.ts'

const entry = join(import.meta.dirname, '../../gateway-worker.ts')

/** Beyond what connections may take to drain. */
const graceMs = 5_000

/**
 * Looks whether the gateway's port is free, or finds one for port 0. Workers may share a port, so without this look two
 * Fareboxes on one machine would serve each other's customers.
 * @throws StartRefused when it is taken
 */
export const gatewayPort = async ({ gateway: { port, listen } }: Config): Promise<number> => {
  const probe = createServer()
  probe.listen({ host: listen[0], port })
  try {
    await once(probe, 'listening')
  } catch (error) {
    throw new StartRefused(
      `port ${port} of ${listen[0]}, the gateway's, cannot be had (${(error as Error).message}); set FAREBOX_GATEWAY_PORT to another one, or FAREBOX_GATEWAY_WORKERS=0 to run no gateway here`,
      { cause: error },
    )
  }
  const found = (probe.address() as { readonly port: number }).port
  probe.close()
  await once(probe, 'close')
  return found
}

/** Runs the gateway's workers, each in a process of its own. */
export const superviseGateway = (deps: {
  readonly config: Config
  readonly env: NodeJS.ProcessEnv
  readonly logger: Logger
  /** A worker that took connections is gone: what it had on lease may be sold by others. */
  readonly onGone?: (worker: string) => void
}): Supervised => {
  const { config, logger, onGone } = deps
  const { port, workers } = config.gateway
  return supervise({
    entry,
    count: workers,
    env: { ...deps.env, FAREBOX_GATEWAY_PORT: String(port) },
    name: 'a gateway worker',
    graceMs: config.shutdownTimeoutMs + graceMs,
    logger,
    onGone,
  })
}

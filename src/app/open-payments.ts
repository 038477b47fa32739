import { createOrderable } from '../features/catalog/quotes.ts'
import {
  createDeposits,
  createOpeningLimits,
  type Deposits,
  noOpeningLimits,
} from '../features/deposits/deposit-service.ts'
import { callbackPath, createInbox, type Inbox } from '../features/payments/callbacks.ts'
import { createGateways, type OwnGateway } from '../features/payments/gateways.ts'
import type { Gateways } from '../features/payments/payment-port.ts'
import {
  createResellerCredentials,
  createResellerGateways,
} from '../features/resellers/gateway-credentials.ts'
import type { MonotonicClock } from '../kernel/clock.ts'
import type { CrashHooks } from '../kernel/crash-points.ts'
import type { CloseStack } from '../kernel/resource-scope.ts'
import type { Core } from '../platform/feature/core.ts'
import { StartRefused } from '../platform/postgres/errors.ts'
import { createVault } from '../platform/vault/seal.ts'
import { deleteSandboxFeeds, openSandboxProxies } from '../sandbox/free-list/feeds.ts'
import { deleteSandboxExits, startSandboxExits } from '../sandbox/sandbox-exits.ts'
import { type Sandbox, startSandbox } from '../sandbox/sandbox-server.ts'
import { postgresRecords } from '../sandbox/sandbox-store.ts'
import type { Config } from './config.ts'

/** Everything that takes money, as this process has it. */
export type Payments = {
  readonly gateways: Gateways & { own(): readonly OwnGateway[] }
  readonly inbox: Inbox
  readonly deposits: Deposits
  /** Where the stand-ins answer; null where none run. */
  readonly sandboxUrl: string | null
  /** Where the mail server of stand-ins in this process takes letters; null where none run here. */
  readonly sandboxSmtp: string | null
  /** Where the world reaches this service. */
  readonly publicUrl: () => string
  /** The address that callbacks of a gateway are sent to. */
  readonly callbackUrl: (gatewayId: string) => string
  readonly hooks: CrashHooks
}

/** Where the stand-ins of a server with these settings answer: on its own port or the next one; 0: on any. */
export const sandboxPort = (config: Pick<Config, 'payments' | 'port'>): number => {
  const { sandbox } = config.payments
  if (sandbox?.port !== null && sandbox?.port !== undefined) return sandbox.port
  return config.port === 0 || config.port === 65_535 ? 0 : config.port + 1
}

const ownSandbox = async (core: Core): Promise<Sandbox> => {
  const { pool, clock, logger } = core
  const say = (what: string): void => logger.debug(`sandbox: ${what}`)
  const records = postgresRecords(pool)
  const exits = await startSandboxExits({ records, allowLoopback: core.config.gatewayAllowLoopback })
  const freeProxies = await openSandboxProxies({ records, clock, logger })
  const start = (port: number) => startSandbox({ records, clock, port, say, exits, freeProxies })
  const port = sandboxPort(core.config)
  try {
    return await start(port)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    if (core.config.payments.sandbox?.port !== null) {
      await exits.close()
      await freeProxies.close()
      throw new StartRefused(
        `port ${port}, where the sandbox is to answer, is taken by another program; set FAREBOX_SANDBOX_PORT to another one, or FAREBOX_SANDBOX=off`,
        { cause: error },
      )
    }
    const sandbox = await start(0)
    logger.warn(
      { port, sandboxUrl: sandbox.baseUrl },
      'the port after PORT, where the sandbox would answer, is taken: it answers on a free one',
    )
    return sandbox
  }
}

/**
 * Opens the gateways of the service and its resellers, and the stand-ins where they are wanted: on the demo, without
 * any real credential.
 */
export const openPayments = async (
  core: Core,
  closing: CloseStack,
  parts: {
    /** Whether this process may run stand-ins: one that serves. */
    readonly serves: boolean
    /** Where this process listens, once it does. */
    readonly baseUrl: () => string
    readonly monotonicMs: MonotonicClock
    readonly hooks: CrashHooks
  },
): Promise<Payments> => {
  const { config, keys, log, runner, pool, clock, logger } = core
  const { sandbox } = config.payments
  const { hooks } = parts
  const own = sandbox && sandbox.url === null && parts.serves ? await ownSandbox(core) : null
  if (own) closing.add(own.close)
  if (sandbox === null && parts.serves) await deleteSandboxExits(pool)
  if (own === null && parts.serves) await deleteSandboxFeeds(pool)
  const sandboxUrl = own?.baseUrl ?? sandbox?.url ?? null
  if (sandboxUrl !== null)
    logger.warn({ sandboxUrl }, 'payments go to the sandbox: no real money is taken by this process')
  const publicUrl = (): string => config.payments.publicUrl ?? parts.baseUrl()
  const callbackUrl = (gatewayId: string): string => `${publicUrl()}${callbackPath(gatewayId)}`
  const gateways = createGateways({
    config: config.payments,
    resellers: createResellerGateways({
      pool,
      credentials: createResellerCredentials({ pool, vault: createVault(keys.master) }),
    }),
    sandboxUrl,
    master: keys.master,
    callbackUrl,
    clock,
  })
  closing.add(gateways.close)
  return {
    gateways,
    inbox: createInbox(pool, clock),
    deposits: createDeposits({
      log,
      runner,
      pool,
      gateways,
      openingLimits: config.rates ? createOpeningLimits(parts.monotonicMs) : noOpeningLimits,
      callbackUrl,
      orderable: createOrderable(runner),
      clock,
      logger,
      hooks,
    }),
    sandboxUrl,
    sandboxSmtp: own?.smtpUrl ?? null,
    publicUrl,
    callbackUrl,
    hooks,
  }
}

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import type pg from 'pg'
import { createDeposits, noOpeningLimits } from '../../../src/features/deposits/deposit-service.ts'
import { createDepositPages } from '../../../src/features/deposits/deposit-urls.ts'
import { startDepositReactor } from '../../../src/features/deposits/poll-invoices.ts'
import { startCallbackReactor } from '../../../src/features/deposits/take-callbacks.ts'
import { callbackPath, createInbox } from '../../../src/features/payments/callbacks.ts'
import {
  createGateways,
  type ResellerGateways,
  type StoredGateway,
} from '../../../src/features/payments/gateways.ts'
import type { Gateways } from '../../../src/features/payments/payment-port.ts'
import { createWallets } from '../../../src/features/wallet/wallet-service.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { createKysely } from '../../../src/platform/postgres/kysely.ts'
import type { MasterKey } from '../../../src/platform/vault/keys.ts'
import { createWorkers } from '../../../src/platform/work/queue-workers.ts'
import { runnerOver } from '../../platform/commands/purse.ts'
import { silent } from '../../platform/projections/engine.ts'
import { mortal } from '../../support/prefix-process.ts'
import { testScheduler } from '../../support/scheduler.ts'

/** What every process of an installation shares. */
export type Installation = {
  readonly pool: pg.Pool
  readonly master: MasterKey
  readonly sandboxUrl: string
  /** Where callbacks are taken. */
  readonly publicUrl: string
  readonly gateways: readonly StoredGateway[]
}

const hooks = { at: () => undefined }
const rails = { stripe: 'card', btcpay: 'crypto', nowpayments: 'crypto' } as const

const gatewaysOf = ({ master, sandboxUrl, publicUrl, gateways }: Installation) => {
  const resellers: ResellerGateways = {
    forRail: async (owner, rail) =>
      gateways.find((one) => one.owner === owner && rails[one.credentials.provider] === rail) ?? null,
    byId: async (id) => gateways.find(({ gatewayId }) => gatewayId === id) ?? null,
  }
  return createGateways({
    config: {
      publicUrl,
      merchantName: 'Shop',
      gateways: [],
      sandbox: null,
      depositPollMs: 0,
      adaptivePricing: false,
    },
    resellers,
    sandboxUrl,
    master,
    callbackUrl: (gatewayId) => `${publicUrl}${callbackPath(gatewayId)}`,
    clock: Date.now,
  })
}

/** The part of a process that accepts money, over any log: it ends with its log. */
export const openDepositProcess = (installation: Installation, log: EventLog) => {
  const { pool, publicUrl } = installation
  const { log: own, died, dead } = mortal(log)
  const limits = { resendFirstMs: 1, resendMaxMs: 4, unknownOutcomeWaitMs: 200, closeMs: 20 }
  const runner = runnerOver(own, { limits })
  const gateways = gatewaysOf(installation)
  const deposits = createDeposits({
    log: own,
    runner,
    pool,
    pages: createDepositPages({ pool, db: createKysely(pool), keys: installation, logger: silent }),
    gateways,
    openingLimits: noOpeningLimits,
    callbackUrl: (gatewayId) => `${publicUrl}${callbackPath(gatewayId)}`,
    orderable: async () => true,
    clock: Date.now,
    logger: silent,
    hooks,
  })
  const wallets = createWallets({ runner })
  const inbox = createInbox(pool, Date.now)
  const scheduler = testScheduler()
  const workers = createWorkers({
    scheduler,
    pool,
    clock: Date.now,
    monotonicMs: () => performance.now(),
    logger: silent,
  })
  const callbacks = startCallbackReactor({
    scheduler,
    workers,
    inbox,
    gateways,
    deposits,
    wallets,
    runner,
    hooks,
    logger: silent,
    pollMs: 20,
  })
  const looks = startDepositReactor({
    workers,
    pool,
    deposits,
    clock: Date.now,
    logger: silent,
    firstPollMs: 200,
  })
  return {
    deposits,
    wallets,
    died,
    dead,
    /** Ends in order. */
    close: async (): Promise<void> => {
      await Promise.all([callbacks.stop(), looks.stop()])
      await workers.stop()
      await runner.close()
      await gateways.close()
    },
    /** The remains of a crashed process: its timers. */
    bury: async (): Promise<void> => {
      void callbacks.stop()
      void looks.stop()
      void workers.stop()
      await runner.close()
      await gateways.close()
    },
  }
}

/** Takes callbacks as the service's route does: signature, inbox, answer. */
export const openReceiver = async (t: TestContext, pool: pg.Pool) => {
  const inbox = createInbox(pool, Date.now)
  const found: { gateways: Gateways | null; taken: number; refused: number } = {
    gateways: null,
    taken: 0,
    refused: 0,
  }
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const live = await found.gateways?.byId(request.url?.split('/').at(-1) ?? '')
    const verdict = live?.gateway.verify(Buffer.concat(chunks), request.headers, Date.now())
    if (live && verdict?.ok) {
      const { eventId, reference } = verdict.callback
      if (reference !== null) await inbox.store(live.gatewayId, { eventId, reference })
      found.taken += 1
    } else found.refused += 1
    response.writeHead(verdict?.ok ? 200 : 401).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    found,
    open: (installation: Installation) => {
      const gateways = gatewaysOf(installation)
      found.gateways = gateways
      t.after(gateways.close)
    },
  }
}

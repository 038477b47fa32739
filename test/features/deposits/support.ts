import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { createWallets } from '../../../src/features/wallet/wallet-service.ts'
import { type Customer, openStage, operator, type Stage } from '../../contract/stage.ts'
import type { ServiceParts } from '../../support/service.ts'
import { until } from '../../support/until.ts'
import { cliOf } from '../resellers/cli.ts'

/** The stand-in's view of an invoice. */
export type Shown = {
  readonly id: string
  readonly deposit_id: string
  readonly status: string
  readonly amount_cents: number
  readonly paid_cents: number
}

export type Shop = Stage & {
  readonly sandbox: string
  /** An action at the stand-in: `pay`, `expire`, `fail`, `process`, `dispute`. */
  act(id: string, deed: string, cents?: number): Promise<{ status: number; body: Shown & { error?: string } }>
  switches(change: object): Promise<void>
  /** Opens a deposit with the key. */
  // biome-ignore lint/suspicious/noExplicitAny: an answer that the client has checked
  open(key: string, json: object, headers?: Record<string, string>): Promise<any>
  // biome-ignore lint/suspicious/noExplicitAny: an answer that the client has checked
  read(key: string, depositId: string): Promise<any>
  untilBalance(key: string, cents: number): Promise<void>
  /** Moves the clock of the service and of its stand-ins ahead. */
  ahead(ms: number): void
  /** Waits until the deposit reads like this, and gives it. */
  // biome-ignore lint/suspicious/noExplicitAny: an answer that the client has checked
  reads(key: string, depositId: string, wanted: object): Promise<any>
}

const matches = (value: Record<string, unknown>, wanted: object): boolean =>
  Object.entries(wanted).every(([name, expected]) => value[name] === expected)

/** The whole service with the stand-ins of the payment providers. */
export const openShop = async (
  t: TestContext,
  settings: Readonly<Record<string, string>> = {},
  parts: ServiceParts = {},
): Promise<Shop> => {
  const clock = { aheadMs: 0 }
  const stage = await openStage(
    t,
    { FAREBOX_DEPOSIT_LOOK_MS: '3600000', ...settings },
    { clockOffsetMs: () => clock.aheadMs, ...parts },
  )
  const { sandbox } = stage.demo
  assert.ok(sandbox)
  const json = async (method: string, path: string, body: unknown) => {
    const response = await fetch(`${sandbox}${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return { status: response.status, body: (await response.json()) as Shown & { error?: string } }
  }
  const read = async (key: string, depositId: string) => {
    const answer = await stage.client.get(`/api/v1/deposits/${depositId}`, { key })
    assert.equal(answer.status, 200, answer.text)
    return answer.body
  }
  return {
    ...stage,
    sandbox,
    act: (id, deed, cents) =>
      json('POST', `/_sandbox/invoices/${id}/${deed}`, cents === undefined ? {} : { amount_cents: cents }),
    switches: async (change) => {
      const { status, body } = await json('PUT', '/_sandbox/switches', change)
      assert.equal(status, 200, JSON.stringify(body))
    },
    open: async (key, body, headers = {}) => {
      const answer = await stage.client.post('/api/v1/deposits', body, { key, headers })
      assert.equal(answer.status, 200, answer.text)
      return answer.body
    },
    read,
    ahead: (ms) => {
      clock.aheadMs = ms
    },
    untilBalance: async (key, cents) => {
      await until(async () => (await stage.balance(key)) === cents, { what: `a balance of ${cents}` })
    },
    reads: async (key, depositId, wanted) => {
      let last: Record<string, unknown> = {}
      try {
        await until(
          async () => {
            last = await read(key, depositId)
            return matches(last, wanted)
          },
          { timeoutMs: 20_000 },
        )
      } catch {
        assert.fail(`the deposit reads ${JSON.stringify(last)}, not ${JSON.stringify(wanted)}`)
      }
      return last
    },
  }
}

/** The headers that name a reseller's customer, and the key. */
export const customer = (name: string, key?: string) => ({
  'X-Reseller-Customer-Id': name,
  ...(key === undefined ? {} : { 'Idempotency-Key': key }),
})

export type ShopReseller = Customer & { cli(...args: readonly string[]): Promise<void> }

/** A reseller with stand-ins as its own gateways: cards at Stripe, crypto at the named provider. */
export const openReseller = async (
  shop: Shop,
  name: string,
  crypto: 'btcpay' | 'nowpayments',
): Promise<ShopReseller> => {
  const account = await shop.customer({ cents: 0, reseller: true })
  const run = cliOf(shop.farebox)
  const cli = async (...args: readonly string[]) => {
    const ran = await run(...args)
    assert.equal(ran.code, 0, ran.err)
  }
  const { accountId } = account
  await cli('reseller', 'set', '--account', accountId, '--merchant-name', name)
  const gateway = ['reseller', 'gateway', '--account', accountId, '--sandbox', '--rail']
  await cli(...gateway, 'card', '--provider', 'stripe')
  await cli(...gateway, 'crypto', '--provider', crypto)
  await until(async () => {
    const probe = { amount_cents: 1000, method: 'crypto' }
    const headers = customer('probe', 'probe')
    return (await shop.client.post('/api/v1/deposits', probe, { key: account.key, headers })).status === 200
  })
  return { ...account, cli }
}

/** A customer's credit and debt at the reseller, from the log. */
export const standingOf = async (shop: Shop, accountId: string, ref: string) => {
  const { pool } = shop.farebox.core
  const { rows } = await pool.query<{ customer_id: string }>(
    'select customer_id from vault.customers where account_id = $1 and ref = $2',
    [accountId, ref],
  )
  const credit = await createWallets(shop.farebox.core).customerCredit(accountId as never, operator)
  return credit(rows[0]?.customer_id ?? '')
}

/** A customer's credit at the reseller, in cents. */
export const creditOf = async (shop: Shop, accountId: string, ref: string): Promise<number> =>
  (await standingOf(shop, accountId, ref)).availableMicros / 10_000

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Auditor } from '../../src/app/auditor.ts'
import type { DemoFile } from '../../src/app/demo/demo-file.ts'
import type { Farebox } from '../../src/app/start.ts'
import type { RefundRequest } from '../../src/domain/orders/refunds.ts'
import { createAccounts } from '../../src/features/accounts/account-service.ts'
import { createCustomers } from '../../src/features/accounts/customers.ts'
import { refundOrder } from '../../src/features/orders/refund-order.ts'
import { createMeter } from '../../src/features/plans/meter-traffic.ts'
import { createResellerCredentials } from '../../src/features/resellers/gateway-credentials.ts'
import { createResellers } from '../../src/features/resellers/terms.ts'
import { createWallets } from '../../src/features/wallet/wallet-service.ts'
import type { AccountId, CustomerId, OrderId } from '../../src/kernel/ids.ts'
import type { CapCovers, KeyScope } from '../../src/kernel/scopes.ts'
import { createVault } from '../../src/platform/vault/seal.ts'
import { type Called, type Document, httpClient } from './http.ts'
import { commandLineOf, operator } from './operator.ts'
import { until } from './until.ts'
import { assertVerified } from './verify.ts'

/** A service in this process. */
export type StartedApp = {
  readonly farebox: Farebox
  /** Null without `audits`. */
  readonly auditor: Auditor | null
  /** Closes the auditor and the service. The database stays. */
  readonly close: () => Promise<void>
  readonly baseUrl: string
  readonly demo: DemoFile
  /** The settings that another process on the same database needs. */
  readonly env: NodeJS.ProcessEnv
  readonly document: Document
  readonly clock: { aheadMs: number }
}

/** The answer, when it succeeded. */
export const done = async (sent: Promise<Called>): Promise<Called> => {
  const answer = await sent
  assert.ok(answer.status < 300, answer.text)
  return answer
}

/** The result of a service, when it did what was requested. */
export const applied = <Result extends { readonly outcome: string }>(result: Result) => {
  if (result.outcome !== 'done' && result.outcome !== 'applied') assert.fail(JSON.stringify(result))
  return result as Exclude<Result, { readonly outcome: 'refused' }>
}

/** An order of addresses for thirty days. */
export const addresses = (quantity: number, more: object = {}) => ({
  product_id: 'isp-static',
  quantity,
  fulfillment_meta: { country: 'USA', period_days: 30 },
  ...more,
})

/** The headers that name a reseller's customer, and the idempotency key. */
export const asCustomer = (name: string, key?: string) => ({
  'X-Reseller-Customer-Id': name,
  ...(key !== undefined && { 'Idempotency-Key': key }),
})

export type Customer = { readonly accountId: AccountId; readonly key: string; readonly email: string }

/** The sandbox's view of an invoice. */
type Invoice = {
  readonly id: string
  readonly deposit_id: string
  readonly status: string
  readonly amount_cents: number
  readonly paid_cents: number
  readonly error?: string
}

/** What an operator and callers of the API do. */
export const actionsOn = (started: StartedApp) => {
  const { farebox, baseUrl, demo, document, clock } = started
  const { core, projecting, config } = farebox
  const beginsAheadMs = clock.aheadMs
  const client = httpClient(baseUrl, document)
  const accounts = createAccounts(core)
  const wallets = createWallets(core)
  const customers = createCustomers({ pool: core.pool, master: core.keys.master })
  const cli = commandLineOf(farebox)

  const run = async (...args: readonly string[]) => {
    const ran = await cli(...args)
    assert.equal(ran.code, 0, ran.err)
    return ran.json
  }
  const credit = async (accountId: string, amountCents: number): Promise<void> => {
    const reference = randomUUID()
    applied(await wallets.credit({ accountId: accountId as AccountId, amountCents, reference }, operator))
  }
  const issueKey = async (
    accountId: string,
    dailyCapCents: number | null = null,
    scopes: readonly KeyScope[] = ['buy'],
    covers: CapCovers = 'orders',
  ): Promise<string> => {
    const cap = dailyCapCents === null ? null : ({ cents: dailyCapCents, covers } as const)
    const wanted = { accountId: accountId as AccountId, scopes, cap }
    return applied(await accounts.issueKey(wanted, operator)).key
  }
  const customer = async (wanted: {
    readonly cents: number
    readonly reseller?: boolean
    readonly scopes?: readonly KeyScope[]
    readonly email?: string
  }): Promise<Customer> => {
    const { cents, reseller = false, scopes, email = `${randomUUID()}@customers.example` } = wanted
    const { accountId } = applied(await accounts.create({ email, reseller }, operator))
    if (cents > 0) await credit(accountId, cents)
    return { accountId, email, key: await issueKey(accountId, null, scopes) }
  }
  // biome-ignore lint/suspicious/noExplicitAny: an answer that the client has checked
  const read = async (key: string, path: string): Promise<any> => {
    const answer = await client.get(path, { key })
    assert.equal(answer.status, 200, answer.text)
    return answer.body
  }
  const untilReads = async (key: string, path: string, wanted: object) => {
    let last: Record<string, unknown> = {}
    const matches = async () => {
      last = await read(key, path)
      return Object.entries(wanted).every(([name, value]) => last[name] === value)
    }
    try {
      await until(matches, { timeoutMs: 20_000 })
    } catch {
      assert.fail(`${path} reads ${JSON.stringify(last)}, not ${JSON.stringify(wanted)}`)
    }
    // biome-ignore lint/suspicious/noExplicitAny: an answer that the client has checked
    return last as any
  }
  const balance = async (key: string): Promise<number> => (await read(key, '/api/v1/wallet')).balanceCents
  const inSandbox = async (method: string, path: string, body: object) => {
    const response = await fetch(`${demo.sandbox}/_sandbox/${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return { status: response.status, body: (await response.json()) as Invoice }
  }
  /** A customer's credit and debt at the reseller, from the log. */
  const customerWallet = async (accountId: string, ref: string) => {
    const { rows } = await core.pool.query<{ customer_id: string }>(
      'select customer_id from vault.customers where account_id = $1 and ref = $2',
      [accountId, ref],
    )
    return (await wallets.customerCredit(accountId as AccountId, operator))(rows[0]?.customer_id ?? '')
  }
  /** A customer pays its reseller; the first payment creates the relation. Returns our id of the customer. */
  const payCustomer = async (accountId: string, ref: string, amountCents: number): Promise<CustomerId> => {
    const reseller = accountId as AccountId
    const customerId = await customers.ensure(reseller, ref)
    const payment = { amountCents, reference: randomUUID(), reason: 'payment', gateway: null } as const
    applied(await wallets.adjustCustomer({ accountId: reseller, customerId, ...payment }, operator))
    return customerId
  }
  /** A reseller's account with its client. */
  const resellerOf = ({ accountId, key }: { readonly accountId: string; readonly key: string }) => {
    const client = httpClient(baseUrl, document, key)
    return {
      accountId: accountId as AccountId,
      key,
      client,
      /** A customer pays. */
      pay: (ref: string, cents: number) => payCustomer(accountId, ref, cents),
      /** An order for a customer; null: its own. */
      order: (ref: string | null, json: object, idempotencyKey: string = randomUUID()) => {
        const headers = { 'Idempotency-Key': idempotencyKey, ...(ref !== null && asCustomer(ref)) }
        return client.post('/api/v1/orders', json, { headers })
      },
    }
  }
  const newReseller = async (cents: number) => resellerOf(await customer({ cents, reseller: true }))
  return {
    ...started,
    core,
    /** Clients whose every answer is checked against the interface description; this one sends the key of the call. */
    client,
    buyer: httpClient(baseUrl, document, demo.buyer.key),
    reseller: httpClient(baseUrl, document, demo.reseller.key),
    scraper: httpClient(baseUrl, document, demo.scraper.key),
    accounts,
    wallets,
    resellers: createResellers({
      runner: core.runner,
      credentials: createResellerCredentials({ pool: core.pool, vault: createVault(core.keys.master) }),
    }),

    /** Sets how far the service's clock is ahead of its time at the beginning of the test. */
    ahead: (ms: number): void => {
      clock.aheadMs = beginsAheadMs + ms
    },
    wait: (ms: number): void => {
      clock.aheadMs += ms
    },
    waitUntil: (iso: string): void => {
      clock.aheadMs += Date.parse(iso) - core.clock()
    },

    /** Runs a command line with `--json`; `cli.text` without. */
    cli,
    /** The JSON of a command line that succeeds. */
    run,
    /** Writes a file for a command and gives its path. */
    file: async (name: string, content: unknown): Promise<string> => {
      const path = join(config.dataDir, name)
      await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
      return path
    },
    caughtUp: () => projecting.caughtUp(10_000),
    /** The log, the books and every read table agree, and no invariant is violated. */
    verified: () =>
      assertVerified(
        { pool: core.pool, log: core.log, sealKey: core.keys.seal },
        { logInPostgres: core.isLogInPostgres },
      ),

    /** A new account with money and one key. */
    customer,
    issueKey,
    credit,
    balance,
    /** Waits for this balance. */
    untilBalance: async (key: string, cents: number): Promise<void> => {
      await until(async () => (await balance(key)) === cents, { what: `a balance of ${cents}` })
    },
    payCustomer,
    customerWallet,
    /** In cents, from the log. */
    customerCredit: async (accountId: string, ref: string): Promise<number> =>
      (await customerWallet(accountId, ref)).availableMicros / 10_000,

    readOrder: (key: string, orderId: string) => read(key, `/api/v1/orders/${orderId}`),
    /** Waits until the order has this status, and gives it. */
    untilOrder: (key: string, orderId: string, status: string) =>
      untilReads(key, `/api/v1/orders/${orderId}`, { status }),
    refund: async (orderId: string, request: RefundRequest = { kind: 'whole' }) => {
      const answer = await refundOrder(
        { ...core, settleTraffic: createMeter(core).settle },
        { orderId: orderId as OrderId, refundId: `ref_${randomUUID()}`, request, ...operator },
      )
      if (answer?.kind !== 'refunded') assert.fail(JSON.stringify(answer))
      return answer
    },

    // biome-ignore lint/suspicious/noExplicitAny: an answer that the client has checked
    openDeposit: async (key: string, json: object, headers: Record<string, string> = {}): Promise<any> =>
      (await done(client.post('/api/v1/deposits', json, { key, headers }))).body,
    readDeposit: (key: string, depositId: string) => read(key, `/api/v1/deposits/${depositId}`),
    /** Waits until the deposit reads like this, and gives it. */
    untilDeposit: (key: string, depositId: string, wanted: object) =>
      untilReads(key, `/api/v1/deposits/${depositId}`, wanted),
    sandbox: demo.sandbox!,
    /** An action on the sandbox's invoice of a deposit: `pay`, `expire`, `fail`, `process`, `dispute` … */
    act: (depositId: string, action: string, cents?: number) =>
      inSandbox(
        'POST',
        `invoices/${depositId}/${action}`,
        cents === undefined ? {} : { amount_cents: cents },
      ),
    /** Faults of the sandbox's payment providers. */
    switches: async (change: object): Promise<void> => {
      const { status, body } = await inSandbox('PUT', 'switches', change)
      assert.equal(status, 200, JSON.stringify(body))
    },
    resellerOf,
    newReseller,
    /** A new reseller with gateways of its own in the sandbox: cards at Stripe, crypto at the named provider. */
    resellerWithGateways: async (name: string, crypto: 'btcpay' | 'nowpayments') => {
      const reseller = await newReseller(0)
      const account = ['--account', reseller.accountId]
      await run('reseller', 'set', ...account, '--merchant-name', name)
      const gateway = ['reseller', 'gateway', ...account, '--sandbox', '--rail']
      await run(...gateway, 'card', '--provider', 'stripe')
      await run(...gateway, 'crypto', '--provider', crypto)
      const probe = { amount_cents: 1000, method: 'crypto' }
      const headers = asCustomer('probe', 'probe')
      await until(
        async () => (await reseller.client.post('/api/v1/deposits', probe, { headers })).status === 200,
      )
      return reseller
    },
  }
}

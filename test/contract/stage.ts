import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { TestContext } from 'node:test'
import { createAccounts } from '../../src/features/accounts/account-service.ts'
import { createCustomers } from '../../src/features/accounts/customers.ts'
import { createFinanceTokenService } from '../../src/features/finance/token-service.ts'
import { createWallets } from '../../src/features/wallet/wallet-service.ts'
import type { AccountId, CustomerId } from '../../src/kernel/ids.ts'
import type { KeyScope as Scope } from '../../src/kernel/scopes.ts'
import { type Called, type HttpClient, httpClient } from '../support/http.ts'
import { type Service, type ServiceParts, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

export const operator = { actor: { kind: 'operator', name: 'test' }, correlationId: 'test' } as const

export type Customer = { readonly accountId: AccountId; readonly key: string; readonly email: string }

/** The whole service with one client that checks every answer, and an operator's hand in it. */
export type Stage = Service & {
  /** Sends no key but the one of the call. */
  readonly client: HttpClient
  /** A new account with money and one key. */
  customer(wanted: { cents: number; reseller?: boolean; scopes?: readonly Scope[] }): Promise<Customer>
  issueKey(accountId: string, dailyCapCents?: number | null): Promise<string>
  credit(accountId: string, cents: number): Promise<void>
  /**
   * The payments of a customer to its reseller; the first payment creates the relation. Returns our id of the
   * customer.
   */
  payCustomer(accountId: string, ref: string, cents: number): Promise<CustomerId>
  readonly accounts: ReturnType<typeof createAccounts>
  balance(key: string): Promise<number>
  /** Reads the books and nothing else. */
  readonly financeToken: string
}

export const openStage = async (
  t: TestContext,
  settings: Readonly<Record<string, string>> = {},
  parts: ServiceParts = {},
): Promise<Stage> => {
  // Receivers of tests are on this machine. Checks of rentals have a target, and no gateway that would ask it.
  const usual = { FAREBOX_WEBHOOK_ALLOW_LOOPBACK: 'on', FAREBOX_GATEWAY_CHECK_URL: 'http://127.0.0.1:9/ip' }
  const service = await startService(t, { ...usual, ...settings }, parts)
  const { core } = service.farebox
  const accounts = createAccounts(core)
  const wallets = createWallets(core)
  const client = httpClient(service.baseUrl, service.document)

  const issued = await createFinanceTokenService(core).issue({ name: 'test', expiresAtMs: null }, operator)
  if (issued.outcome !== 'done') assert.fail(issued.refusal.code)

  const credit: Stage['credit'] = async (accountId, amountCents) => {
    const reference = randomUUID()
    const credited = await wallets.credit(
      { accountId: accountId as AccountId, amountCents, reference },
      operator,
    )
    assert.equal(credited.outcome, 'applied')
  }
  const customers = createCustomers({ pool: core.pool, master: core.keys.master })
  const payCustomer: Stage['payCustomer'] = async (account, ref, amountCents) => {
    const accountId = account as AccountId
    const customerId = await customers.ensure(accountId, ref)
    const payment = { amountCents, reference: randomUUID(), reason: 'payment', gateway: null } as const
    const paid = await wallets.adjustCustomer({ accountId, customerId, ...payment }, operator)
    assert.equal(paid.outcome, 'applied')
    return customerId
  }
  const issue = async (accountId: AccountId, scopes: readonly Scope[], dailyCapCents: number | null) => {
    const issued = await accounts.issueKey({ accountId, scopes, dailyCapCents }, operator)
    if (issued.outcome !== 'done') assert.fail(issued.refusal.code)
    return issued.key
  }
  return {
    ...service,
    client,
    accounts,
    financeToken: issued.key,
    credit,
    payCustomer,
    issueKey: (accountId, dailyCapCents = null) => issue(accountId as AccountId, ['buy'], dailyCapCents),
    async customer({ cents, reseller = false, scopes = ['buy'] }) {
      const email = `${randomUUID()}@customers.example`
      const made = await accounts.create({ email, reseller }, operator)
      if (made.outcome !== 'done') assert.fail(made.refusal.code)
      if (cents > 0) await credit(made.accountId, cents)
      return { accountId: made.accountId, email, key: await issue(made.accountId, scopes, null) }
    },
    balance: async (key) => {
      const read = await client.get('/api/v1/wallet', { key })
      assert.equal(read.status, 200, read.text)
      return read.body.balanceCents
    },
  }
}

/** Waits until lines can go out somewhere: the sandbox makes its exits after the start. */
export const untilExits = async (client: HttpClient, key: string): Promise<void> => {
  const countries = () => client.get('/api/v1/geo/countries', { key })
  await until(async () => (await countries()).body.total >= 12, { what: 'the exits of the sandbox' })
}

/** The answer, when it succeeded. */
export const done = async (sent: Promise<Called>): Promise<Called> => {
  const answer = await sent
  assert.ok(answer.status < 300, answer.text)
  return answer
}

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { RefundRequest } from '../../../src/domain/orders/refunds.ts'
import { createAccounts } from '../../../src/features/accounts/account-service.ts'
import { createCustomers } from '../../../src/features/accounts/customers.ts'
import { refundOrder } from '../../../src/features/orders/refund-order.ts'
import { createMeter } from '../../../src/features/plans/meter-traffic.ts'
import { createResellerCredentials } from '../../../src/features/resellers/gateway-credentials.ts'
import { createResellers } from '../../../src/features/resellers/terms.ts'
import { createWallets } from '../../../src/features/wallet/wallet-service.ts'
import type { AccountId, OrderId } from '../../../src/kernel/ids.ts'
import { createVault } from '../../../src/platform/vault/seal.ts'
import { type HttpClient, httpClient } from '../../support/http.ts'
import type { Service } from '../../support/service.ts'
import { operator } from './cli.ts'

export const cause = { actor: operator, correlationId: 'run_test' } as const

/** A reseller with money, its client, and an operator's hand in its affairs. */
export type Shop = {
  readonly accountId: AccountId
  readonly key: string
  readonly client: HttpClient
  /** Credits a customer by the reseller's own id; the id inside. */
  credit(ref: string, cents: number): Promise<string>
  /** Orders for a customer and gives the answer. */
  order(
    ref: string | null,
    body: object,
    idempotencyKey?: string,
  ): Promise<{
    readonly status: number
    // biome-ignore lint/suspicious/noExplicitAny: an order's fields are read freely
    readonly body: any
  }>
}

/** The operator's actions on a running service. */
export const shopsOf = (service: Service) => {
  const { core } = service.farebox
  const accounts = createAccounts(core)
  const wallets = createWallets(core)
  const customers = createCustomers({ pool: core.pool, master: core.keys.master })
  const resellers = createResellers({
    runner: core.runner,
    credentials: createResellerCredentials({ pool: core.pool, vault: createVault(core.keys.master) }),
  })

  const shopOf = async (accountId: AccountId, key: string): Promise<Shop> => {
    const client = httpClient(service.baseUrl, service.document, key)
    return {
      accountId,
      key,
      client,
      credit: async (ref, cents) => {
        const customerId = await customers.ensure(accountId, ref)
        const answer = await wallets.adjustCustomer(
          {
            accountId,
            customerId,
            amountCents: cents,
            reference: randomUUID(),
            reason: 'payment',
            gateway: null,
          },
          cause,
        )
        assert.equal(answer.outcome, 'applied')
        return customerId
      },
      order: (ref, body, idempotencyKey = randomUUID()) =>
        client.post('/api/v1/orders', body, {
          headers: {
            'Idempotency-Key': idempotencyKey,
            ...(ref !== null && { 'X-Reseller-Customer-Id': ref }),
          },
        }),
    }
  }

  return {
    resellers,
    /** Another reseller with so much money. */
    open: async (cents: number): Promise<Shop> => {
      const made = await accounts.create(
        { email: `${randomUUID()}@resellers.example`, reseller: true },
        cause,
      )
      if (made.outcome === 'refused') assert.fail(made.refusal.code)
      const { accountId } = made
      const issued = await accounts.issueKey({ accountId, scopes: ['buy'], dailyCapCents: null }, cause)
      if (issued.outcome === 'refused') assert.fail(issued.refusal.code)
      const credited = await wallets.credit({ accountId, amountCents: cents, reference: randomUUID() }, cause)
      assert.equal(credited.outcome, 'applied')
      return shopOf(accountId, issued.key)
    },
    demo: () => shopOf(service.demo.reseller.accountId as AccountId, service.demo.reseller.key),
    refund: async (orderId: string, request: RefundRequest = { kind: 'whole' }) => {
      const answer = await refundOrder(
        { ...core, settleTraffic: createMeter(core).settle },
        {
          orderId: orderId as OrderId,
          refundId: `ref_${randomUUID()}`,
          request,
          ...cause,
        },
      )
      if (answer?.kind !== 'refunded') assert.fail(JSON.stringify(answer))
      return answer
    },
  }
}

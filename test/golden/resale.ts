import * as accounts from '../../src/domain/accounts/decide.ts'
import { accountFold } from '../../src/domain/accounts/fold.ts'
import { catalogFold } from '../../src/domain/catalog/fold.ts'
import { ledgerFold } from '../../src/domain/ledger/fold.ts'
import { decideAwaitedAlone, decideAwaiting } from '../../src/domain/orders/decide-awaited.ts'
import { decideOwnPrices, decideTerms, type TermsChange } from '../../src/domain/resellers/decide.ts'
import { termsFold } from '../../src/domain/resellers/fold.ts'
import type { OrderDetails } from '../../src/domain/shared/order-terms.ts'
import { isoTime } from '../../src/kernel/clock.ts'
import type { AccountId, CustomerId, DepositId, KeyId } from '../../src/kernel/ids.ts'
import { accountStream, catalogStream, ledgerStream, termsStream } from '../../src/kernel/streams.ts'
import { forCustomer, planOrder } from '../support/world.ts'
import type { Acts } from './acts.ts'
import { openDeposit, report } from './deposits.ts'
import type { History } from './history.ts'
import { priced } from './priced.ts'

const shop = 'acc_golden_shop' as AccountId
const customerId = 'cus_golden' as CustomerId

/** A reseller with its own terms, and a customer who pays, buys, is refunded and charges a payment back. */
export const makeResale = (history: History, { move, place, refund }: Acts): void => {
  const { by, fact, state, states, write, now } = history
  const creation = accounts.decideCreation(state(accountStream(shop), accountFold), {
    emailCommitment: '0'.repeat(64),
    accountId: shop,
    reseller: true,
  })
  if (creation.outcome === 'refused') throw new Error(creation.refusal.code)
  fact(accountStream(shop), ...creation.events)
  const issue = accounts.decideIssue(
    state(accountStream(shop), accountFold),
    {
      ...{ keyId: 'key_shop' as KeyId, scopes: ['buy'], cap: null, displayPrefix: 'fbx_shop' },
      ...{ name: null, expiresAtMs: null, networks: null, commitment: 'c0ffee00'.repeat(8) },
    },
    now(),
  )
  if (issue.outcome === 'refused') throw new Error(issue.refusal.code)
  fact(accountStream(shop), ...issue.events)

  const change = (wish: TermsChange, decide = decideTerms): void => {
    const found = {
      account: state(accountStream(shop), accountFold),
      catalog: state(catalogStream, catalogFold),
      terms: state(termsStream(shop), termsFold),
    }
    const decision = decide(found, wish)
    if (decision.outcome === 'refused') throw new Error(decision.refusal.message)
    fact(termsStream(shop), ...decision.events)
  }
  const retail = { productId: 'isp-static', countries: ['USA'], periods: [30] }
  change({ discountBp: 1_250, markupMillionths: 2_000_000 })
  change({ priceLimits: { fromMillionths: 1_000_000, toMillionths: 1_500_000 } })
  by({ kind: 'key', accountId: shop, keyId: 'key_shop' }, () =>
    change({ markupMillionths: 1_300_000 }, decideOwnPrices),
  )
  const oneTier = (unitPriceMicros: number) => ({ tiers: [{ from: 1, unitPriceMicros }], belowCost: false })
  change({ retail: { ...retail, price: oneTier(3_000_000) } })
  change({ retail: { ...retail, price: null } })
  change({
    retail: {
      productId: 'residential-unlimited',
      countries: [],
      periods: [],
      price: {
        tiers: [
          { from: 1, unitPriceMicros: 4_000_000 },
          { from: 10, unitPriceMicros: 3_500_000 },
          { from: 20, unitPriceMicros: 3_300_000 },
        ],
        belowCost: true,
      },
    },
  })
  change({ sellable: ['isp-static', 'residential-premium', 'residential-unlimited'] })
  change({ shop: { merchantName: 'Golden proxies', website: 'https://golden.example' } })
  const commitment = 'c0ffee00'.repeat(8)
  change({ gateway: { rail: 'card', to: { provider: 'stripe', reference: 'gw_golden_card', commitment } } })
  change({ gateway: { rail: 'crypto', to: { provider: 'btcpay', reference: 'gw_golden_crypto' } } })
  change({ gateway: { rail: 'crypto', to: null } })
  change({ bot: { provider: 'telegram', reference: 'bot_golden', commitment } })
  change({ bot: null })

  move({ kind: 'credit', accountId: shop, reference: 'shop', amountMicros: 30_000_000 })
  const own = { accountId: shop, customerId, gatewayId: 'gw_golden_card' } as const
  const paid = openDeposit(history, 'dep_golden_customer', own)
  report(history, paid, { status: 'paid', payments: [{ paymentId: 'pi_golden', amountMicros: 30_000_000 }] })
  const sold = (orderId: string, over: Partial<OrderDetails> = {}): OrderDetails => ({
    ...forCustomer(planOrder(orderId, { accountId: shop })),
    customerId,
    keyId: 'key_shop' as KeyId,
    ...over,
  })
  place(sold('ord_golden_sold'))
  refund('ord_golden_sold', { kind: 'cents', cents: 950 })
  const adjustment = { kind: 'customer', accountId: shop, customerId } as const
  move({
    ...adjustment,
    reference: 'back',
    reason: 'chargeback',
    gateway: 'gw_golden_card',
    amountMicros: -25_000_000,
  })
  move({ ...adjustment, reference: 'cash', reason: 'payment', gateway: null, amountMicros: 60_000_000 })

  // Paid by the customer, and more than the reseller's wallet holds: it waits for a day.
  const order = priced(
    history,
    sold('ord_golden_held', { quantity: 10, method: 'card', createdAt: isoTime(now()) }),
  )
  const depositId = 'dep_golden_held' as DepositId
  write(decideAwaiting(states(order), { order, depositId }).appends)
  const found = { ...states(order), account: state(accountStream(shop), accountFold) }
  write(decideAwaitedAlone(found, { order, depositId, orderable: true }, now()).appends)
  const { availableMicros } = state(ledgerStream(shop), ledgerFold)
  if (availableMicros >= 30_000_000) throw new Error(`${order.orderId} is not held`)
}

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import * as accounts from '../../src/domain/accounts/decide.ts'
import { type AccountState, accountFold } from '../../src/domain/accounts/fold.ts'
import { parseCatalog } from '../../src/domain/catalog/catalog-file.ts'
import { decideImport, decideState } from '../../src/domain/catalog/decide.ts'
import { catalogFold } from '../../src/domain/catalog/fold.ts'
import { decideMetering } from '../../src/domain/plans/decide.ts'
import { planFold } from '../../src/domain/plans/fold.ts'
import { decideAllowance, decideNetworkRemoval, whitelistRef } from '../../src/domain/plans/whitelist.ts'
import { decideExpiry, decideReplacement } from '../../src/domain/stock/decide.ts'
import type { StockedAddress } from '../../src/domain/stock/events.ts'
import { addressFold, stockFold } from '../../src/domain/stock/fold.ts'
import { decideStocking } from '../../src/features/stock/add-stock.ts'
import {
  type AccountId,
  type KeyId,
  type OrderId,
  type ProxyId,
  planIdOfOrder,
} from '../../src/kernel/ids.ts'
import {
  accountStream,
  addressStream,
  catalogStream,
  planStream,
  stockStream,
} from '../../src/kernel/streams.ts'
import { eventsOf } from '../support/decider.ts'
import { addressOrder, planOrder } from '../support/world.ts'
import { createActs } from './acts.ts'
import { makeAdoption } from './adoption.ts'
import { makeApprovals } from './approvals.ts'
import { makeConsole } from './console.ts'
import {
  makeDepositRefunds,
  makeDeposits,
  makeGatewayChanges,
  makeTopups,
  makeUnmatched,
} from './deposits.ts'
import { createHistory, type GoldenEvent } from './history.ts'
import { makeOperations } from './operations.ts'
import { makeResale } from './resale.ts'
import { foundEnd, makeScrapes, scraperOf } from './scrapes.ts'
import { makeSubscriptions } from './subscriptions.ts'
import { makeTrafficBudgets } from './traffic-budgets.ts'
import { makeWebhooks } from './webhooks.ts'

const dayMs = 86_400_000
const buyer = 'acc_golden_buyer' as AccountId
const reseller = 'acc_golden_reseller' as AccountId
const isp = stockStream('isp-static', 'USA')

/** Every kind of event that the service writes, by the decisions that write them where there are some. */
export const makeEvents = async (): Promise<readonly GoldenEvent[]> => {
  const history = createHistory(Date.parse('2026-07-21T00:00:00.000Z'))
  const { write, fact, state, now, wait } = history
  const acts = createActs(history)
  const { move, place, complete, refund } = acts

  const parsed = parseCatalog(await readFile(join(import.meta.dirname, 'catalog.json'), 'utf8'))
  if (!parsed.ok) throw new Error('catalog.json is refused')
  fact(catalogStream, ...eventsOf(decideImport(state(catalogStream, catalogFold), parsed.file, now())))
  const parked = { productId: 'residential-premium', state: 'parked', successorId: null } as const
  for (const to of [parked, { ...parked, state: 'active' }] as const)
    fact(catalogStream, ...eventsOf(decideState(state(catalogStream, catalogFold), to, now())))

  const onAccount = (id: AccountId, decide: (state: AccountState) => accounts.AccountDecision): void => {
    const decision = decide(state(accountStream(id), accountFold))
    if (decision.outcome === 'refused') throw new Error(decision.refusal.code)
    fact(accountStream(id), ...decision.events)
  }
  const keyId = 'key_golden' as KeyId
  const commitment = 'c0ffee00'.repeat(8)
  const free = { name: null, expiresAtMs: null, networks: null, commitment }
  const issue = {
    keyId,
    scopes: ['buy', 'scrape'],
    cap: null,
    displayPrefix: 'fbx_abcd',
    ...free,
  } as const
  const held = { name: 'shop', expiresAtMs: now() + 90 * 86_400_000, networks: ['203.0.113.0/24'] }
  history.by({ kind: 'system', name: 'upgrade' }, () => makeAdoption(history))
  for (const id of [buyer, reseller])
    onAccount(id, (s) =>
      accounts.decideCreation(s, {
        accountId: id,
        reseller: id === reseller,
        emailCommitment: '0'.repeat(64),
      }),
    )
  const capped = {
    ...issue,
    keyId: 'key_capped' as KeyId,
    cap: { cents: 1_700, covers: 'everything' } as const,
  }
  for (const key of [issue, capped]) onAccount(buyer, (s) => accounts.decideIssue(s, key, now()))
  onAccount(reseller, (s) =>
    accounts.decideIssue(s, { ...issue, ...held, keyId: 'key_other' as KeyId }, now()),
  )
  onAccount(buyer, (s) => accounts.decideCap(s, { keyId, cap: { cents: 90_000 } }))
  const roll = {
    keyId: 'key_other' as KeyId,
    overlapMs: 86_400_000,
    next: { keyId: 'key_next' as KeyId, displayPrefix: 'fbx_next', commitment },
  }
  onAccount(reseller, (s) => accounts.decideRoll(s, roll, now()))
  onAccount(reseller, (s) =>
    accounts.decideCap(s, { keyId: roll.next.keyId, cap: { cents: 5_000, covers: 'everything' } }),
  )
  onAccount(reseller, (s) => accounts.decideRevocation(s, { keyId: 'key_other' as KeyId }))
  onAccount(reseller, (s) => accounts.decideBlock(s, { reason: 'fraud' }))
  onAccount(reseller, accounts.decideUnblock)

  onAccount(reseller, (s) => accounts.decideLowBalance(s, 500))

  const adjustment = { kind: 'adjustment', accountId: reseller, gateway: null } as const
  move({ kind: 'credit', accountId: buyer, reference: 'first', amountMicros: 900_000_000 })
  move({ kind: 'credit', accountId: reseller, reference: 'first', amountMicros: 10_000_000 })
  const correction = {
    ...adjustment,
    reference: 'lost',
    reason: 'correction',
    amountMicros: -8_000_000,
  } as const
  move(correction, 1)
  move({ ...adjustment, reference: 'gift', reason: 'goodwill', amountMicros: 500_000 })
  move({ ...adjustment, reference: 'card', reason: 'chargeback', gateway: 'card', amountMicros: -12_000_000 })
  move(correction)
  move({ ...adjustment, reference: 're', reason: 'deposit_refund', gateway: 'card', amountMicros: -500_000 })
  move({ kind: 'credit', accountId: reseller, reference: 'debt', amountMicros: 5_000_000 })

  const stockUp = (ips: readonly string[], more: Pick<StockedAddress, 'endpoint'> = {}): void => {
    const bare = { city: 'Dallas', asn: 7922, asnOrg: 'Comcast', carrierId: null, service: null }
    const found = new Map(ips.map((ip) => [ip, state(addressStream(ip), addressFold)]))
    const stocking = {
      productId: 'isp-static',
      country: 'USA',
      addresses: ips.map((ip) => ({ ip, ...bare, ...more })),
    }
    write(decideStocking({ stock: state(isp, stockFold), addresses: found }, stocking, now()).appends)
  }
  stockUp(['198.18.0.1', '198.18.0.2', '198.18.0.3', '198.18.0.4'])
  fact(addressStream('198.18.0.9'), {
    type: 'AddressStocked',
    data: { ip: '198.18.0.9', productId: 'isp-static', country: 'USA' },
  })
  fact(addressStream('198.18.0.9'), { type: 'AddressRetired', data: { ip: '198.18.0.9', reason: 'listed' } })

  const mine = { accountId: buyer, keyId }
  const planId = planIdOfOrder('ord_golden_plan' as OrderId)
  const rentals = () => [...state(isp, stockFold).rentals.keys()] as ProxyId[]

  place(addressOrder('ord_golden_addresses', mine))
  place(
    addressOrder('ord_golden_extension', {
      ...mine,
      kind: 'extension',
      proxyIds: rentals().slice(0, 1),
      quantity: 1,
    }),
  )
  place(addressOrder('ord_golden_lost', mine), 1)
  place(addressOrder('ord_golden_won', mine))
  complete('ord_golden_lost')
  refund('ord_golden_won', { kind: 'proxies', proxyIds: rentals().slice(-1) })

  stockUp(['198.18.0.5'])
  const request = {
    proxyId: rentals()[0]!,
    accountId: buyer,
    reason: 'not_working',
    requestId: 'rpl_golden',
  } as const
  fact(isp, ...eventsOf(decideReplacement(state(isp, stockFold), request, now())))
  const supplier = { protocol: 'socks5', host: 'gw.acme.example', port: 1080, udp: false } as const
  stockUp(['198.18.0.5', '198.18.0.6'], { endpoint: { ...supplier, credentialId: 'stl_golden' } })

  place(planOrder('ord_golden_plan', mine))
  place(planOrder('ord_golden_topup', { ...mine, kind: 'topup', planId }))
  const meter = (usedBytes: number): void =>
    fact(
      planStream(planId),
      ...decideMetering(state(planStream(planId), planFold), { usedBytes, anyway: true }, now()),
    )
  meter(3_000_000_000)
  refund('ord_golden_topup', { kind: 'whole' })
  meter(5_000_000_000)
  fact(planStream(planId), { type: 'PlanCredentialRotated', data: { generation: 1 } })
  const whitelist = whitelistRef(buyer)
  const onWhitelist = () => state(whitelist.stream, whitelist.fold)
  const allow = (entryCommitment: string) =>
    fact(
      whitelist.stream,
      ...decideAllowance(onWhitelist(), [
        { entry: { entryId: 'wle_golden', planId, commitment: entryCommitment }, known: null },
      ]).events,
    )
  const [first, second] = ['01'.repeat(32), '02'.repeat(32)]
  allow(first)
  allow(second)
  fact(whitelist.stream, ...decideNetworkRemoval(onWhitelist(), [first]).events)

  makeTrafficBudgets(history, buyer, planId)

  const timed = {
    ...mine,
    productId: 'residential-unlimited',
    shape: 'gateway_time',
    renewal: 'repurchase',
    unit: 'Mbps',
    bytes: null,
    periodDays: 30,
  } as const
  place(planOrder('ord_golden_time', timed))
  place(planOrder('ord_golden_ended', timed))
  refund('ord_golden_ended', { kind: 'whole' })
  const ending = planIdOfOrder('ord_golden_time' as OrderId)
  place(planOrder('ord_golden_late', { ...mine, kind: 'topup', planId: ending }), 1)
  wait(31 * dayMs)
  complete('ord_golden_late')
  fact(isp, ...decideExpiry(state(isp, stockFold), rentals(), now()))

  makeScrapes(history, buyer)
  makeConsole(history, buyer)
  const person = { kind: 'session', subjectId: buyer, sessionId: 'ses_golden_link', method: 'link' } as const
  history.by(person, () => place(planOrder('ord_golden_person', { ...mine, keyId: null })))
  const byKey = { kind: 'key', accountId: buyer, keyId } as const
  history.by(byKey, () => place(planOrder('ord_golden_key', mine)))
  place(planOrder('ord_golden_capped', { ...mine, keyId: capped.keyId }), undefined, capped.cap)
  const scrapeCapped = scraperOf(history, buyer, capped.keyId, capped.cap)
  for (const requestId of ['capped', 'capped-again']) scrapeCapped(requestId, foundEnd)
  makeResale(history, acts)
  makeDeposits(history, buyer)
  makeDepositRefunds(history, buyer)
  makeTopups(history, buyer)
  makeUnmatched(history, buyer)
  makeSubscriptions(history, acts, buyer)
  makeWebhooks(history, { accountId: buyer, orderId: 'ord_golden_plan' })
  makeApprovals(history, buyer)
  fact(isp, ...decideExpiry(state(isp, stockFold), rentals(), now()))
  makeOperations(history)
  makeGatewayChanges(history)
  return history.written
}

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type pg from 'pg'
import type { Logger } from 'pino'
import { marginLinesTable, marginSumsTable, margins } from '../../../projections/margins.ts'
import { violationsTable } from '../../../src/audit/invariants/invariant.ts'
import { orderRules } from '../../../src/audit/invariants/order-invariants.ts'
import type { AccountState } from '../../../src/domain/accounts/fold.ts'
import { parseMeta } from '../../../src/domain/catalog/catalog.ts'
import { quote } from '../../../src/domain/catalog/pricing.ts'
import { isDedicated, type Product, type Tier } from '../../../src/domain/catalog/product.ts'
import { resellerBook } from '../../../src/domain/ledger/books.ts'
import type { LedgerEvent } from '../../../src/domain/ledger/events.ts'
import { customerPurse, ledgerFold } from '../../../src/domain/ledger/fold.ts'
import { postingsOf } from '../../../src/domain/ledger/postings.ts'
import { decidePlacement, type OrderDraft } from '../../../src/domain/orders/decide-placement.ts'
import { decideRefund, type RefundRequest } from '../../../src/domain/orders/refunds.ts'
import { decideTerms } from '../../../src/domain/resellers/decide.ts'
import { emptyTerms, evolveTerms } from '../../../src/domain/resellers/fold.ts'
import type { OrderDetails } from '../../../src/domain/shared/order-terms.ts'
import { priceListView, quoteView } from '../../../src/features/catalog/views.ts'
import { prepareOrder } from '../../../src/features/orders/prepare-order.ts'
import { createLiveTerms } from '../../../src/features/resellers/live-prices.ts'
import type { DomainEvent, RecordedEvent } from '../../../src/kernel/event.ts'
import type { CustomerId, KeyId, OrderId } from '../../../src/kernel/ids.ts'
import { ledgerStream, orderStream, type StreamName } from '../../../src/kernel/streams.ts'
import type { Caller } from '../../../src/platform/http/auth.ts'
import { ApiError } from '../../../src/platform/http/errors.ts'
import { demoCatalog, demoText, imported } from '../../domain/catalog/samples.ts'
import { foldInMemory } from '../../projections/memory-rows.ts'
import fc, { runs } from '../../support/fast-check.ts'
import {
  appendTo,
  credit,
  customer,
  customerCredit,
  emptyWorld,
  buyer as reseller,
  stateOf,
  statesFor,
  stock,
  type World,
} from '../../support/world.ts'

const atMs = Date.parse('2026-11-21T02:30:00.000Z')
const dayMs = 86_400_000
const ips = Array.from({ length: 40 }, (_, n) => `192.0.2.${n + 1}`)
const caller: Caller = {
  accountId: reseller,
  keyId: 'key_one' as KeyId,
  capKeyId: 'key_one' as KeyId,
  scopes: ['buy'],
  cap: null,
  reseller: true,
  blocked: false,
  email: '',
}
/** Where stock is, for the period that is generated. */
const country = 'USA'
/** What else is sold, so that a price of one country and period is seen not to be that of another. */
const elsewhere = 'DEU'

/** Terms as an operator sets them, through their events and the table of prices. */
const termsFor = async (product: Product, deal: Deal, periodDays: number) => {
  const account: AccountState = {
    reseller: true,
    blocked: false,
    blocks: 0,
    emailCommitment: null,
    lowBalanceMicros: null,
    keys: new Map() as never,
  }
  const dedicated = isDedicated(product)
  const decision = decideTerms(
    { account, catalog: imported(demoText), terms: emptyTerms },
    {
      discountBp: deal.discountBp,
      markupMillionths: deal.markupMillionths,
      ...(deal.retailMicros !== null && {
        retail: {
          productId: product.id,
          countries: dedicated ? [deal.retailElsewhere ? elsewhere : country] : [],
          periods: dedicated ? [periodDays] : [],
          price: { tiers: [{ from: 1, unitPriceMicros: deal.retailMicros }], belowCost: true },
        },
      }),
    },
  )
  if (decision.outcome === 'refused') throw new Error(decision.refusal.message)
  const terms = decision.events.reduce(evolveTerms, emptyTerms)
  const rows = [{ resellerId: reseller, position: 1 }]
  const pool = { query: async () => ({ rows }) } as unknown as pg.Pool
  const watch = { version: () => 0, onChange: () => () => undefined }
  const termsOf = async () => ({ state: terms, revision: 3 })
  const live = createLiveTerms({ pool, termsOf, watch, logger: {} as Logger })
  await live.refresh()
  return live.termsOf(caller, product)
}

type Deal = {
  readonly discountBp: number
  readonly markupMillionths: number | null
  readonly retailMicros: number | null
  /** The retail price is that of another country. */
  readonly retailElsewhere: boolean
}
/**
 * A share of the remaining amount, in thousandths, or addresses in any order, by index among the remaining
 * ones.
 */
type Part = { readonly thousandths: number } | { readonly picks: readonly number[] }

/** A markup below the cost is refused. */
const deal: fc.Arbitrary<Deal> = fc
  .record({
    discountBp: fc.oneof(fc.integer({ min: 0, max: 9_999 }), fc.constantFrom(0, 1_250, 3_333)),
    markupMillionths: fc.option(
      fc.oneof(fc.integer({ min: 1, max: 5_000_000 }), fc.constantFrom(1_300_000, 1_000_001, 1_305_000)),
    ),
    retailMicros: fc.option(
      fc.oneof(fc.integer({ min: 1, max: 50_000_000 }), fc.constantFrom(3_333_333, 5_000, 2_995_000)),
    ),
    retailElsewhere: fc.oneof({ weight: 3, arbitrary: fc.constant(false) }, fc.constant(true)),
  })
  .map(({ markupMillionths, ...others }) => ({
    ...others,
    markupMillionths: markupMillionths && Math.max(markupMillionths, (10_000 - others.discountBp) * 100),
  }))
const part: fc.Arbitrary<Part> = fc.oneof(
  fc.record({ thousandths: fc.integer({ min: 1, max: 1_000 }) }),
  fc.record({ picks: fc.array(fc.nat(ips.length), { minLength: 1, maxLength: 5 }) }),
)
const tierEdges = ['residential-premium', 'residential-basic'].flatMap((id) => {
  const product = demoCatalog.resolve(id)
  if (!product || isDedicated(product)) throw new Error(`${id} has no tiers`)
  return product.tiers.flatMap(({ from }) => [from - 1, from]).filter((from) => from > 0 && from <= 5_000)
})

const bought = fc.oneof(
  fc.record({
    id: fc.constant('isp-static'),
    quantity: fc.integer({ min: 1, max: ips.length }),
    periodDays: fc.constantFrom(7, 30, 90, 365),
  }),
  fc.record({
    id: fc.constantFrom('residential-premium', 'residential-basic'),
    // Around the tiers as well as anywhere between them.
    quantity: fc.oneof(fc.integer({ min: 1, max: 5_000 }), fc.constantFrom(...tierEdges)),
    periodDays: fc.constant(30),
  }),
)

/** The events of the world's streams, in the order in which they were written. */
const eventsOf = (
  written: readonly { readonly stream: StreamName; readonly event: DomainEvent; readonly atMs: number }[],
): readonly RecordedEvent[] => {
  const revisions = new Map<string, number>()
  return written.map(({ stream, event, atMs }, index) => {
    const revision = revisions.get(stream) ?? 0
    revisions.set(stream, revision + 1)
    return {
      ...event,
      id: `event-${index}`,
      stream,
      revision,
      position: index + 1,
      metadata: {
        correlationId: 'test',
        causationId: null,
        actor: { kind: 'system', name: 'test' },
        recordedAt: new Date(atMs).toISOString(),
      },
    }
  })
}

/** The books of all money events: the balance of each account of each book, debits above zero. */
const booksOf = (events: readonly RecordedEvent[]): ReadonlyMap<string, number> => {
  const balances = new Map<string, number>()
  for (const event of events) {
    if (!event.stream.startsWith('ledger-')) continue
    const sums = new Map<string, number>()
    for (const { book, account, debitMicros, creditMicros } of postingsOf(
      event as RecordedEvent<LedgerEvent>,
      {
        accountId: reseller,
        reseller: true,
      },
    )) {
      const name = `${book} ${account}`
      balances.set(name, (balances.get(name) ?? 0) + debitMicros - creditMicros)
      sums.set(book, (sums.get(book) ?? 0) + debitMicros - creditMicros)
    }
    for (const [book, sum] of sums) assert.equal(sum, 0, `${event.type} in ${book}`)
  }
  return balances
}

const tiersOf = (product: Product): readonly Tier[] => {
  if (isDedicated(product)) throw new Error(`${product.id} is priced by its target`)
  return product.tiers
}

const cents = (micros: number | undefined): number => (micros ?? 0) / 10_000

test('quote, price list, charge, postings, refunds and margins agree to the cent, for any terms and parts', async () => {
  const histories = runs(300, 5_000)
  let sold = 0
  let parts = 0
  await fc.assert(
    fc.asyncProperty(
      deal,
      bought,
      fc.array(part, { maxLength: 6 }),
      async (deal, { id, quantity, periodDays }, wanted) => {
        const meta = { country, period_days: periodDays }
        const product = demoCatalog.resolve(id)
        assert.ok(product)
        const dedicated = isDedicated(product)
        const terms = await termsFor(product, deal, periodDays)
        const rateRequest = parseMeta(product, dedicated ? meta : undefined)
        assert.ok(rateRequest.ok)
        const priced = quote(product, { quantity, rateRequest: rateRequest.value, terms })
        assert.ok(priced.ok)
        const shown = quoteView(product, priced.value, [])
        assert.equal(shown.marginCents, shown.amountCents - (shown.yourCostCents ?? Number.NaN))
        const retail = dedicated && deal.retailElsewhere ? null : deal.retailMicros
        // The rule of docs/reference/api.md, written down once more and without anything of ours: retail, else list ×
        // markup.
        const tiers = priced.value.target === null ? tiersOf(product) : null
        if (tiers !== null || retail !== null) {
          const listMicros =
            tiers === null ? null : BigInt(tiers.findLast(({ from }) => from <= quantity)!.unitPriceMicros)
          const half = (micros: bigint, over: bigint) => Number((micros + over / 2n) / over)
          const units = BigInt(quantity)
          const customerCents =
            retail !== null
              ? half(BigInt(retail) * units, 10_000n)
              : half(listMicros! * units * BigInt(deal.markupMillionths ?? 1_000_000), 10_000_000_000n)
          assert.equal(shown.amountCents, customerCents)
          if (listMicros !== null)
            assert.equal(
              shown.yourCostCents,
              half(listMicros * units * BigInt(10_000 - deal.discountBp), 100_000_000n),
            )
        }

        if (dedicated) {
          const list = priceListView(
            product,
            { country, quantity, periodDays: null },
            { stock: [], terms, importedAt: null },
          )
          const line = list.lines.find(({ days }) => days === periodDays)
          assert.deepEqual(
            [line?.listCents, line?.yourCostCents, line?.customerCents, line?.marginCents],
            [shown.listCents, shown.yourCostCents, shown.amountCents, shown.marginCents],
          )
        }

        const prepare = (
          orderId: string,
          customerId: CustomerId | null,
          expectedAmountCents: number | undefined,
        ) =>
          prepareOrder(
            {
              orderId: orderId as OrderId,
              caller,
              customerId,
              termsOf: () => terms,
              method: 'wallet',
              payableBy: ['wallet'],
              expectedAmountCents,
              catalog: demoCatalog,
            },
            { productId: id, quantity, meta: dedicated ? meta : undefined },
            { of: async () => [], all: async () => new Map() },
          )
        const free = shown.amountCents === 0 || shown.yourCostCents === 0
        if (free) {
          await assert.rejects(prepare('ord_free', customer, undefined), ApiError)
          return
        }
        const own = await prepare('ord_own', null, shown.yourCostCents)
        assert.equal(own.amountCents, shown.yourCostCents)
        const draft: OrderDraft = {
          ...(await prepare('ord_sold', customer, shown.amountCents)),
          fingerprint: 'fingerprint',
        }
        assert.deepEqual([draft.amountCents, draft.costCents], [shown.amountCents, shown.yourCostCents])
        sold += 1

        const written: { stream: StreamName; event: DomainEvent; atMs: number }[] = []
        let world: World = stock(emptyWorld, ips, atMs)
        world = credit(world, draft.costCents! + 7, atMs)
        world = customerCredit(world, draft.amountCents + 3, atMs)
        for (const { event } of world.get(ledgerStream(reseller)) ?? [])
          written.push({ stream: ledgerStream(reseller), event, atMs })
        const ledger = () => stateOf(world, ledgerStream(reseller), ledgerFold)
        const sides = () => [
          cents(ledger().availableMicros),
          cents(customerPurse(ledger(), customer).availableMicros),
        ]
        const before = sides()
        const write = (appends: Parameters<typeof appendTo>[1], at: number): void => {
          for (const { stream, events } of appends)
            for (const event of events) written.push({ stream, event, atMs: at })
          world = appendTo(world, appends, at)
        }

        const placement = decidePlacement(statesFor(world, draft as OrderDetails), { draft, cap: null }, atMs)
        assert.equal(placement.answer.kind, 'placed', JSON.stringify(placement.answer))
        write(placement.appends, atMs)
        assert.deepEqual(sides(), [before[0]! - draft.costCents!, before[1]! - draft.amountCents])

        const sale = foldInMemory(margins, eventsOf(written))(marginLinesTable)
        assert.deepEqual(
          sale.map((line) => [line.type, cents(line.revenueMicros), cents(line.costMicros)]),
          [['sale', shown.amountCents, shown.yourCostCents]],
        )
        assert.equal(cents(sale[0]!.revenueMicros - sale[0]!.costMicros), shown.marginCents)

        let back = { amountCents: 0, costCents: 0 }
        const refund = (n: number, request: RefundRequest): boolean => {
          const states = statesFor(world, draft as OrderDetails)
          const decision = decideRefund(states, `ref_${n}`, request, atMs + n * dayMs)
          if (decision.answer.kind !== 'refunded') {
            assert.equal(decision.answer.kind, 'refused')
            return false
          }
          write(decision.appends, atMs + n * dayMs)
          const last = decision.answer.order.refunds.at(-1)!
          back = {
            amountCents: back.amountCents + last.amountCents,
            costCents: back.costCents + (last.costCents ?? 0),
          }
          assert.ok(back.amountCents <= draft.amountCents && back.costCents <= draft.costCents!)
          assert.deepEqual(sides(), [
            before[0]! - draft.costCents! + back.costCents,
            before[1]! - draft.amountCents + back.amountCents,
          ])
          return true
        }
        for (const [n, each] of wanted.entries()) {
          const { order } = statesFor(world, draft as OrderDetails)
          const left = draft.amountCents - back.amountCents
          if (!order || left === 0) break
          const ended = new Set(order.refunds.flatMap(({ proxyIds }) => proxyIds))
          const proxyIds = order.proxyIds.filter((one) => !ended.has(one))
          const picked =
            'picks' in each && proxyIds.length > 0
              ? [...new Set(each.picks.map((pick) => proxyIds[pick % proxyIds.length]!))]
              : []
          const request: RefundRequest =
            picked.length > 0
              ? { kind: 'proxies', proxyIds: picked }
              : {
                  kind: 'cents',
                  cents: Math.max(
                    1,
                    Math.floor((left * ('thousandths' in each ? each.thousandths : 500)) / 1_000),
                  ),
                }
          if (refund(n + 1, request)) parts += 1
        }
        refund(wanted.length + 1, { kind: 'whole' })
        assert.deepEqual(back, { amountCents: draft.amountCents, costCents: draft.costCents })
        assert.deepEqual(sides(), before)

        const events = eventsOf(written)
        const read = foldInMemory(margins, events)
        const total = (rows: readonly { revenueMicros: number; costMicros: number }[]) =>
          rows.reduce((sum, row) => [sum[0]! + row.revenueMicros, sum[1]! + row.costMicros], [0, 0])
        assert.deepEqual(total(read(marginLinesTable)), [0, 0])
        for (const dimension of ['day', 'product', 'customer'])
          assert.deepEqual(
            total(read(marginSumsTable).filter((sum) => sum.dimension === dimension)),
            [0, 0],
            dimension,
          )
        for (const through of events.keys()) {
          const books = booksOf(events.slice(0, through + 1))
          const book = resellerBook(reseller)
          const [revenue, cost] = total(foldInMemory(margins, events.slice(0, through + 1))(marginLinesTable))
          assert.equal(0 - (books.get(`${book} revenue:sales`) ?? 0), revenue)
          assert.equal(books.get(`${book} expenses:cost-of-sales`) ?? 0, cost)
          assert.equal(0 - (books.get(`service revenue:orders:${product.family}`) ?? 0), cost)
        }
        const broken = foldInMemory(orderRules, events, [violationsTable])(violationsTable)
        assert.deepEqual(broken, [])
        assert.ok(events.some(({ stream }) => stream === orderStream(draft.orderId)))
      },
    ),
    { numRuns: histories },
  )
  assert.ok(sold > histories / 3 && parts > (2 * histories) / 3, `${sold} sales, ${parts} parts`)
})

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import type { Customer } from '../../support/app-actions.ts'
import fc from '../../support/fast-check.ts'
import type { Called } from '../../support/http.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'

const runs = process.env.FAREBOX_SOAK === '1' ? 200 : 8
const priceMicros = 3_000
const orderMicros = 5_500_000
const gigabyte = { product_id: 'residential-premium', quantity: 1 }

/** The effect of a word in the target on a call, as documented in docs/guides/scrapers.md. */
const words = {
  nasa: { answer: '200', billed: true, stored: true },
  'missing-1': { answer: '404 target_not_found', billed: true, stored: true },
  'agegate-1': { answer: '403 target_restricted', billed: false, stored: true },
  'html-1': { answer: '502 provider_failed', billed: false, stored: false },
} as const
type Word = keyof typeof words

type Step =
  | { readonly kind: 'scrape'; readonly id: string; readonly word: Word }
  | { readonly kind: 'order' }
  | { readonly kind: 'credit'; readonly cents: number }

const id = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f')
// Failures are few: a platform of which half the calls fail gets no calls for a while.
const word = fc.constantFrom<Word>('nasa', 'nasa', 'nasa', 'nasa', 'missing-1', 'agegate-1', 'html-1')
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('scrape' as const), id, word }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'order' as const }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('credit' as const), cents: fc.constantFrom(1, 2, 549, 550) }),
  },
)

const answerOf = ({ status, body }: Called): string => (status < 400 ? `${status}` : `${status} ${body.code}`)

/** The wallet and the ids of one account, by the rules alone. */
const createModel = (cents: number) => {
  let micros = cents * 10_000
  const ids = new Map<string, { readonly word: Word; readonly stored: boolean }>()
  return {
    micros: () => micros,
    credit: (more: number) => {
      micros += more * 10_000
    },
    order: (): string => {
      if (micros < orderMicros) return '402 insufficient_balance'
      micros -= orderMicros
      return '201'
    },
    scrape: (name: string, about: Word): string => {
      const known = ids.get(name)
      if (known && known.word !== about) return '409 idempotency_conflict'
      const { answer, billed, stored } = words[about]
      if (known?.stored) return answer
      if (micros < priceMicros) return '402 insufficient_balance'
      ids.set(name, { word: about, stored })
      if (billed) micros -= priceMicros
      return answer
    },
  }
}

const scrape = ({ client }: TestApp, { key }: Customer, requestId: string, handle: string): Promise<Called> =>
  client.post('/v1/scrape/tiktok/profile', { handle }, { key, headers: { 'X-Request-Id': requestId } })

const order = ({ client }: TestApp, { key }: Customer): Promise<Called> =>
  client.post('/api/v1/orders', gigabyte, { key, headers: { 'Idempotency-Key': randomUUID() } })

/** What can be spent, to the micro-dollar. */
const availableMicros = async ({ client }: TestApp, { key }: Customer): Promise<number> => {
  const { body } = await client.get('/api/v1/wallet/transactions?limit=1', { key })
  return body.transactions[0]?.balanceAfterMicros ?? 0
}

test('random scrapes and orders on a nearly empty wallet are answered and charged by the rules', async (t) => {
  const app = await testApp(t, { own: true })
  const counts: Record<string, number> = {}
  const count = (answer: string): void => {
    counts[answer] = (counts[answer] ?? 0) + 1
  }

  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(0, 1, 2, 551),
      fc.array(step, { minLength: 10, maxLength: 25, size: 'max' }),
      async (cents, steps) => {
        const customer = await app.customer({ cents, scopes: ['buy', 'scrape'] })
        const model = createModel(cents)
        for (const one of steps) {
          if (one.kind === 'credit') {
            await app.credit(customer.accountId, one.cents)
            model.credit(one.cents)
          } else {
            const given = answerOf(
              await (one.kind === 'order' ? order(app, customer) : scrape(app, customer, one.id, one.word)),
            )
            const expected = one.kind === 'order' ? model.order() : model.scrape(one.id, one.word)
            assert.equal(given, expected, JSON.stringify(one))
            count(given)
          }
          assert.equal(await availableMicros(app, customer), model.micros())
          assert.equal(await app.balance(customer.key), Math.floor(model.micros() / 10_000))
        }
        // All at once: which call gets the last money is open, the charge is not.
        const before = model.micros()
        const scraped = Array.from({ length: 20 }, (_, n) =>
          scrape(app, customer, `at-once-${n % 15}`, `about-${n % 15}`),
        )
        const ordered = Array.from({ length: 2 }, () => order(app, customer))
        const answers = await Promise.all(scraped)
        const charged = answers.filter(
          ({ status, headers }) => status === 200 && !headers.has('idempotency-replayed'),
        ).length
        const bought = (await Promise.all(ordered)).filter(({ status }) => status === 201).length
        for (const answer of answers) count(answerOf(answer))
        const after = await availableMicros(app, customer)
        assert.equal(after, before - charged * priceMicros - bought * orderMicros)
        assert.ok(after >= 0)
      },
    ),
    { numRuns: runs },
  )
  t.diagnostic(JSON.stringify(counts))
  await app.verified()
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { payPart, refusedPurchase } from '../../../src/features/orders/buy-form.ts'
import { refuse } from '../../../src/platform/http/errors.ts'
import type { AccountVisit } from '../../../src/platform/ui/page.ts'

const visit = { form: { key: 'k' } } as AccountVisit
const owes = /You owe \$22\.00 after a refund or a dispute/
const link = 'href="/console/top-up?cents=3300"'

test('a quote above the balance names the debt, and its link adds the debt to the missing amount', () => {
  const quoted = (owedCents: number) =>
    payPart(visit, { cents: 1_100, wallet: { balanceCents: 0, owedCents } }).html
  assert.match(quoted(2_200), owes)
  assert.ok(quoted(2_200).includes(link))
  assert.doesNotMatch(quoted(0), /owe/)
})

test('so does a purchase that is refused for the balance', () => {
  const figures = { balanceCents: 0, amountCents: 1_100, owedCents: 2_200, shortfallCents: 3_300 }
  const { message } = refusedPurchase(refuse('insufficient_balance', 'the wallet is short', figures), {
    bought: '2 GB',
    quotedCents: 1_100,
  })
  const text = message?.html ?? ''
  assert.match(text, owes)
  assert.ok(text.includes(link))
})

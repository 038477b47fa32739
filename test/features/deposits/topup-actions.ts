import assert from 'node:assert/strict'
import type { TopupEvent, TopupSettings } from '../../../src/domain/deposits/topups.ts'
import { topupStream } from '../../../src/kernel/streams.ts'
import { decode } from '../../../src/platform/eventstore/codec.ts'
import { done } from '../../support/app-actions.ts'
import type { OwnApp, TestApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

export const path = '/api/v1/wallet/auto-topup'

export type Customer = Awaited<ReturnType<TestApp['customer']>>

export const read = async (app: TestApp, { key }: Customer) =>
  (await done(app.client.get(path, { key }))).body

export const turnOn = (
  app: TestApp,
  { key }: Customer,
  settings: Partial<TopupSettings & { readonly resume: boolean }>,
) => done(app.client.call('PUT', path, { key, json: settings }))

/** The customer uses up money. */
export const debit = (app: TestApp, { accountId }: Customer, cents: number, reference: string) =>
  app.run('wallet', 'adjust', '--account', accountId, '--cents', `-${cents}`, '--reference', reference)

const eventsOf = async (app: TestApp, { accountId }: Customer): Promise<readonly TopupEvent[]> => {
  const stream = topupStream(accountId)
  const events = (await app.core.log.readStreams([{ stream, from: 0 }])).get(stream) ?? []
  return events.map((event) => decode(event) as unknown as TopupEvent)
}

export const typesOf = async (app: TestApp, customer: Customer) =>
  (await eventsOf(app, customer)).map(({ type }) => type)

/**
 * Waits while the clock leaps: a leap ends the pause of the workers. Without one, they try again what a provider did not
 * answer after twenty quiet seconds, since nothing of it is in the log. The workers' rounds are two seconds apart.
 */
export const untilRetried = async <Value>(
  app: Pick<OwnApp, 'wait'>,
  check: () => Promise<Value>,
  options: { readonly timeoutMs?: number; readonly what: string },
): Promise<NonNullable<Value>> => {
  const leaps = setInterval(() => app.wait(10_000), 1_000)
  try {
    return await until(check, { everyMs: 150, ...options })
  } finally {
    clearInterval(leaps)
  }
}

export const untilType = (app: OwnApp, customer: Customer, type: TopupEvent['type'], count = 1) =>
  untilRetried(
    app,
    async () => (await typesOf(app, customer)).filter((one) => one === type).length === count,
    { timeoutMs: 40_000, what: `${count} ${type}` },
  )

export const depositsOf = async (app: TestApp, { key }: Customer) =>
  (await done(app.client.get('/api/v1/deposits', { key }))).body.deposits

/** The e-mails to the customer whose subject begins with this text. */
export const lettersOf = async (app: TestApp, { email }: Customer, subject: string) => {
  const answer = await fetch(`${app.demo.sandbox}/_sandbox/mail`)
  const { letters } = (await answer.json()) as { letters: { to: string; subject: string; text: string }[] }
  return letters.filter((letter) => letter.to.includes(email) && letter.subject.startsWith(subject))
}

/** Saves a card on the page of the simulated provider. */
export const saveCard = async (app: TestApp, { key }: Customer, card: string): Promise<void> => {
  const { url } = (await done(app.client.post(`${path}/card`, undefined, { key }))).body
  const sent = await fetch(url, { method: 'POST', body: new URLSearchParams({ card }), redirect: 'manual' })
  assert.equal(sent.status, 303)
  assert.match(sent.headers.get('location') ?? '', /\/console\/auto-topup\?session=cs_setup_[0-9a-f]+$/)
}

export const untilCard = (app: TestApp, customer: Customer, lastFour: string) =>
  until(async () => (await read(app, customer)).card?.lastFour === lastFour, { what: 'the saved card' })

/** The payments by saved cards at the simulated provider. */
export const chargesOf = async (app: TestApp, { accountId }: Customer): Promise<number> => {
  const { rows } = await app.core.pool.query<{ count: number }>(
    `select count(*)::integer as count from work.sandbox_records r
      where kind = 'invoice' and body ? 'byCard' and body->>'status' = 'paid'
        and exists (select from read.deposits d where d.deposit_id = r.body->>'reference' and d.account_id = $1)`,
    [accountId],
  )
  return rows[0]?.count ?? 0
}

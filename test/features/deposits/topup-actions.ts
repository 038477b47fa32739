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

export const turnOn = (app: TestApp, { key }: Customer, settings: Partial<TopupSettings>) =>
  done(app.client.call('PUT', path, { key, json: settings }))

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

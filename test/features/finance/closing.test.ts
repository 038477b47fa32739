import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { utcCalendar } from '../../../src/kernel/calendar.ts'
import { nextPeriod } from '../../../src/kernel/months.ts'
import { asOperator } from '../../support/demo-env.ts'
import { operate } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'

const minute = 60_000

test('finance closes the month on the command line; a service whose clock is still in that month decides nothing more', async (t) => {
  const lines: { msg: string; problem?: string }[] = []
  const logTo = { write: (line: string) => void lines.push(JSON.parse(line)) }
  const app = await testApp(t, { own: true, settings: { LOG_LEVEL: 'error' }, logTo })
  const { env, buyer } = app
  const period = utcCalendar.periodOf(Date.now())
  const next = nextPeriod(period)
  const order = () =>
    buyer.post(
      '/api/v1/orders',
      { product_id: 'residential-premium', quantity: 5 },
      {
        headers: { 'Idempotency-Key': randomUUID() },
      },
    )
  assert.equal((await order()).status, 201)

  const run = (offsetMs: number, ...args: string[]) =>
    operate(['ledger', ...args], { ...env, FAREBOX_CLOCK_OFFSET_MS: String(Math.round(offsetMs)) })
  const untilEnd = utcCalendar.endOfPeriodMs(period) - Date.now()
  const early = await run(untilEnd + 2 * minute, 'close', '--period', period)
  assert.equal(early.code, 2, early.err)
  assert.match(early.err, /is not over: it can be closed from .*:05:00.000Z on; nothing was written/)
  const head = await app.core.log.head()

  const closed = await run(untilEnd + 6 * minute, 'close', '--period', period, '--json')
  assert.equal(closed.code, 0, closed.err)
  const { digest, now } = JSON.parse(closed.out).closed.at(-1)
  assert.equal(now, true)
  assert.ok((await app.core.log.head()) > head)
  const report = await run(untilEnd + 6 * minute, 'periods', period, '--format', 'csv')
  const digested = report.out.replace('\ufeff', '').replaceAll('\r', '')
  assert.equal(createHash('sha256').update(digested).digest('hex'), digest)
  assert.match(report.out, /^service,liabilities:wallet:acc_/m)
  const listed = JSON.parse((await run(untilEnd + 6 * minute, 'periods', '--json')).out).periods
  assert.deepEqual(
    listed.map(({ period: name, status }: { period: string; status: string }) => [name, status]),
    [
      [period, 'closed'],
      [next, 'under way'],
    ],
  )

  await app.core.clockGuard.check()
  const refused = await order()
  assert.equal(refused.status, 503, refused.text)
  const ready = await fetch(`${app.baseUrl}/readyz`, asOperator)
  assert.equal(ready.status, 503)
  const wrong = new RegExp(`${period} is closed: the operator must set the clock right`)
  assert.match(await ready.text(), wrong)
  await app.core.clockGuard.check()
  const warnings = lines.filter(
    ({ msg }) => msg === 'nothing is decided by this process until its clock is right',
  )
  assert.equal(warnings.length, 1, 'reported once')
  assert.match(warnings[0]!.problem!, wrong)

  for (const none of ['2026-13', 'november', '2026-1'])
    assert.equal((await run(0, 'close', '--period', none)).code, 2)
  assert.equal((await run(0, 'periods', '1999-12')).code, 2)
  assert.equal((await run(0, 'periods', '--format', 'csv')).code, 2)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createCalendar, isTimeZone } from '../../src/kernel/calendar.ts'
import { parsePeriod } from '../../src/kernel/months.ts'
import fc from '../support/fast-check.ts'

const zones = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'Asia/Kathmandu',
  'Pacific/Kiritimati',
  'Africa/Cairo',
]
const instants = fc.integer({ min: Date.parse('2000-01-01'), max: Date.parse('2050-01-01') })

test('every instant is in exactly one day and one month, which the zone names', () => {
  fc.assert(
    fc.property(fc.constantFrom(...zones), instants, (zone, at) => {
      const { dayOf, periodOf, startOfDayMs, startOfPeriodMs, endOfPeriodMs } = createCalendar(zone)
      const day = dayOf(at)
      assert.equal(day, new Intl.DateTimeFormat('sv-SE', { timeZone: zone }).format(at))
      assert.ok(startOfDayMs(day) <= at)
      assert.equal(dayOf(startOfDayMs(day)), day)
      assert.notEqual(dayOf(startOfDayMs(day) - 1), day)
      const period = periodOf(at)
      assert.equal(period, day.slice(0, 7))
      assert.ok(startOfPeriodMs(period) <= at && at < endOfPeriodMs(period))
    }),
  )
})

test('a month ends at local midnight, and a day without midnight begins when the clock change ends', () => {
  const berlin = createCalendar('Europe/Berlin')
  const endOf = (text: string) => new Date(berlin.endOfPeriodMs(parsePeriod(text)!)).toISOString()
  assert.equal(endOf('2026-10'), '2026-10-31T23:00:00.000Z')
  assert.equal(endOf('2026-09'), '2026-09-30T22:00:00.000Z')
  const cairo = createCalendar('Africa/Cairo')
  assert.equal(new Date(cairo.startOfDayMs('2026-04-24')).toISOString(), '2026-04-23T22:00:00.000Z')
})

test('a time zone is a name, not an offset', () => {
  assert.deepEqual(['UTC', 'Europe/Berlin', 'Mars/Base', '+02:00', ''].map(isTimeZone), [
    true,
    true,
    false,
    false,
    false,
  ])
})

test('every instant is in one day, one week from Monday and one month, each without a gap to the next', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...zones),
      fc.constantFrom('day' as const, 'week' as const, 'month' as const),
      instants,
      (zone, unit, at) => {
        const { spanOf, dayOf } = createCalendar(zone)
        const { fromMs, toMs } = spanOf(unit, at)
        assert.ok(fromMs <= at && at < toMs)
        assert.deepEqual(spanOf(unit, toMs - 1), { fromMs, toMs })
        assert.equal(spanOf(unit, toMs).fromMs, toMs)
        const first = new Date(`${dayOf(fromMs)}T00:00:00Z`)
        if (unit === 'week') assert.equal(first.getUTCDay(), 1)
        if (unit === 'month') assert.equal(first.getUTCDate(), 1)
      },
    ),
  )
})

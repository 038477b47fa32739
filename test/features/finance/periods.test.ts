import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createEventReader } from '../../../src/audit/checks/event-reader.ts'
import { createFindings } from '../../../src/audit/checks/finding.ts'
import { createPeriodCheck } from '../../../src/audit/checks/record-checks.ts'
import { streamOfLine } from '../../../src/domain/ledger/statement-lines.ts'
import {
  closedOf,
  closingsOf,
  createPeriodEnds,
  createPeriodFold,
  differenceOf,
  digestedText,
  inChartOf,
} from '../../../src/features/finance/period-report.ts'
import {
  createPeriods,
  PeriodDiffers,
  PeriodRefused,
  readPeriodEnds,
} from '../../../src/features/finance/period-service.ts'
import { createCalendar, utcCalendar } from '../../../src/kernel/calendar.ts'
import { type AccountId, type NoticeId, newEventId } from '../../../src/kernel/ids.ts'
import { parsePeriod } from '../../../src/kernel/months.ts'
import { ledgerStream, noticeStream, periodStream } from '../../../src/kernel/streams.ts'
import { createCommandRunner } from '../../../src/platform/commands/command-runner.ts'
import { createCodec } from '../../../src/platform/eventstore/codec.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { silent } from '../../platform/projections/engine.ts'
import fc, { runs } from '../../support/fast-check.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { operator } from '../../support/operator.ts'
import { foldLog } from './fold.ts'

const codec = createCodec()
const account = 'acc_1' as AccountId
const minute = 60_000
const utcEnds = createPeriodEnds(utcCalendar, new Map())
const ms = (iso: string): number => Date.parse(iso)
const month = (text: string) => parsePeriod(text) ?? assert.fail(text)

/** A log that processes with clocks of their own write to. */
const createWorld = () => {
  const log = createMemoryLog()
  let available = 0
  let revision = -1
  /**
   * The appends of a process that decided at this time by its clock, whatever the log or a closing contains.
   */
  const credit = async (at: string, cents = 100): Promise<void> => {
    available += cents * 10_000
    const data = {
      source: 'manual',
      reference: `ref ${revision}`,
      gateway: 'manual',
      depositId: null,
      orderId: null,
      family: null,
      amountMicros: cents * 10_000,
      receivableMicros: 0,
      availableAfterMicros: available,
    }
    const metadata = { correlationId: 'x', causationId: null, actor: operator.actor, recordedAt: at }
    const event = { id: randomUUID(), ...codec.encode({ type: 'WalletCredited', data }, metadata) }
    await log.append(ledgerStream(account), revision === -1 ? 'noStream' : revision, [event])
    revision += 1
  }
  let lines = 0
  /** The append of a process that posts a line of a statement at this time by its clock. */
  const postLine = async (at: string, happenedAt: string, feeMicros = 10_000): Promise<void> => {
    lines += 1
    const data = {
      gateway: 'manual',
      reference: `line ${lines}`,
      category: 'fee',
      feeMicros,
      payoutMicros: 0,
      happenedAt,
      file: null,
      proposalId: null,
    }
    const metadata = { correlationId: 'x', causationId: null, actor: operator.actor, recordedAt: at }
    const event = { id: randomUUID(), ...codec.encode({ type: 'StatementLineBooked', data }, metadata) }
    await log.append(streamOfLine(data), 'noStream', [event])
  }
  const process = (clock: () => number, on: EventLog = log, zone = 'UTC') => {
    const runner = createCommandRunner({ log: on, clock, newEventId, codec, logger: silent })
    return createPeriods({ log: on, runner, decode: codec.decode, calendar: createCalendar(zone) })
  }
  return { log, credit, postLine, process }
}

test('closing a month records its report, and does nothing the second time', async () => {
  const { log, credit, process } = createWorld()
  await credit('2026-10-30T10:00:00.000Z', 300)
  await credit('2026-11-02T10:00:00.000Z', 50)
  await credit('2026-11-30T23:59:59.999Z', 7)
  await credit('2026-12-01T00:00:00.000Z', 1000)
  const periods = process(() => ms('2026-12-01T00:05:00.000Z'))
  const closed = await periods.close(month('2026-11'), operator)
  assert.deepEqual(
    closed.map(({ period, entries, throughOrdinal, now }) => [period, entries, throughOrdinal, now]),
    [
      ['2026-10', 1, 1, true],
      ['2026-11', 2, 3, true],
    ],
  )
  const { report } = await periods.show(month('2026-11'), 0)
  assert.equal(
    digestedText(report),
    [
      'book,account,opening,debits,credits,closing',
      'service,assets:gateway:manual,3.000000,0.570000,0.000000,3.570000',
      'service,liabilities:wallet:acc_1,-3.000000,0.000000,0.570000,-3.570000',
      '',
    ].join('\n'),
  )
  assert.equal(closed[1]?.digest, createHash('sha256').update(digestedText(report)).digest('hex'))

  const head = await log.head()
  const again = await periods.close(month('2026-11'), operator)
  assert.deepEqual(
    again,
    closed.map((each) => ({ ...each, now: false })),
  )
  assert.equal(await log.head(), head)
})

test('a month that is not over, or not in the log, is refused and nothing is written', async () => {
  const { log, credit, process } = createWorld()
  const late = process(() => ms('2026-12-01T00:04:59.999Z'))
  await assert.rejects(late.close(month('2026-11'), operator), { code: 'no_such_period' })
  await credit('2026-10-30T10:00:00.000Z')
  for (const [period, code] of [
    ['2026-11', 'not_over'],
    ['2026-12', 'not_over'],
    ['2027-01', 'not_over'],
    ['2026-09', 'no_such_period'],
  ] as const) {
    await assert.rejects(late.close(month(period), operator), (error) => {
      assert.ok(error instanceof PeriodRefused)
      assert.equal(error.code, code)
      return true
    })
    assert.equal(await log.head(), 1)
  }
})

test('late bookings of a process that does not know of the closing go into the first open month', async () => {
  const { log, credit, process } = createWorld()
  await credit('2026-11-10T00:00:00.000Z', 100)
  const periods = process(() => ms('2026-12-02T00:00:00.000Z'))
  const [closed] = await periods.close(month('2026-11'), operator)
  const before = await periods.show(month('2026-11'), 0)
  await credit('2026-11-20T00:00:00.000Z', 500)
  await credit('2026-11-30T23:59:59.000Z', 600)
  assert.deepEqual((await periods.show(month('2026-11'), 0)).report, before.report)
  const { report } = await periods.show(month('2026-12'), ms('2026-12-02T00:00:00.000Z'))
  assert.deepEqual(
    report.lines.map(({ account: name, debitMicros, creditMicros }) => [name, debitMicros, creditMicros]),
    [
      ['assets:gateway:manual', 11_000_000n, 0n],
      ['liabilities:wallet:acc_1', 0n, 11_000_000n],
    ],
  )
  assert.equal(
    (await process(() => ms('2027-01-05T00:00:00.000Z')).close(month('2026-11'), operator))[0]?.digest,
    closed?.digest,
  )
  assert.ok(await log.lastOf(periodStream(month('2026-11'))))
})

test('appends that land while a month is being closed are not part of it', async () => {
  const { log, credit, process } = createWorld()
  await credit('2026-11-10T00:00:00.000Z', 100)
  // Each append of the closing is followed at once by one of a slow process, whose clock still reads November.
  const raced: EventLog = {
    ...log,
    appendAll: async (items) => {
      const outcomes = await log.appendAll(items)
      await credit('2026-11-30T23:59:59.999Z', 9)
      return outcomes
    },
  }
  const now = () => ms('2026-12-01T00:05:00.000Z')
  const [closed] = await process(now, raced).close(month('2026-11'), operator)
  assert.deepEqual([closed?.entries, closed?.throughOrdinal], [1, 1])
  const { report } = await process(now).show(month('2026-11'), now())
  assert.equal(report.entries, 1)
})

test('a line of a statement is booked in its month until the month is cut off, and then at its posting', async () => {
  const { credit, postLine, process } = createWorld()
  await credit('2026-10-10T00:00:00.000Z', 300)
  await credit('2026-11-10T00:00:00.000Z', 200)
  await postLine('2026-11-11T00:00:00.000Z', '2026-10-31T00:00:00.000Z', 1_000)
  const periods = process(() => ms('2026-11-12T00:00:00.000Z'))
  const linesOf = async (period: string) => {
    const { report } = await periods.show(month(period), ms('2026-12-12T00:00:00.000Z'))
    const fees = report.lines.find(({ account: name }) => name === 'expenses:gateway-fees:manual')
    return [report.entries, fees?.openingMicros, fees?.debitMicros, report.throughOrdinal]
  }
  assert.deepEqual(await linesOf('2026-10'), [2, 0n, 1_000n, 1])
  assert.deepEqual(await linesOf('2026-11'), [1, 1_000n, 0n, 3])
  const [closed] = await periods.close(month('2026-10'), operator)
  assert.deepEqual([closed?.entries, closed?.throughOrdinal], [2, 1])
  await postLine('2026-11-13T00:00:00.000Z', '2026-10-30T00:00:00.000Z', 20)
  assert.deepEqual(await linesOf('2026-10'), [2, 0n, 1_000n, 1])
  assert.deepEqual(await linesOf('2026-11'), [2, 1_000n, 20n, 6])
})

test('an interrupted closing continues, and two simultaneous closings become one', async () => {
  const { log, credit, process } = createWorld()
  await credit('2026-11-10T00:00:00.000Z', 100)
  const now = () => ms('2026-12-01T00:05:00.000Z')
  let appends = 0
  const dying: EventLog = {
    ...log,
    appendAll: async (items) => {
      appends += 1
      if (appends > 1)
        return items.map(() => ({ status: 'unavailable', cause: new Error('gone'), landed: [] }))
      return log.appendAll(items)
    },
  }
  await assert.rejects(process(now, dying).close(month('2026-11'), operator))
  assert.equal(await log.head(), 2)
  assert.deepEqual(
    (await process(now).list(now())).map(({ period, status }) => [period, status]),
    [
      ['2026-11', 'over'],
      ['2026-12', 'under way'],
    ],
  )
  const both = await Promise.all(
    [process(now), process(now)].map((one) => one.close(month('2026-11'), operator)),
  )
  assert.equal(both[0]?.[0]?.digest, both[1]?.[0]?.digest)
  const types = (await log.readAll(0, 100)).map(({ type }) => type)
  assert.deepEqual(types, ['WalletCredited', 'PeriodCutOff', 'PeriodClosed'])
})

test('a month without an entry is closed with the balances before it', async () => {
  const { credit, process } = createWorld()
  await credit('2026-09-10T00:00:00.000Z', 100)
  const periods = process(() => ms('2026-12-05T00:00:00.000Z'))
  const closed = await periods.close(month('2026-11'), operator)
  assert.deepEqual(
    closed.map(({ period, entries }) => [period, entries]),
    [
      ['2026-09', 1],
      ['2026-10', 0],
      ['2026-11', 0],
    ],
  )
  assert.equal(closed[1]?.digest, closed[2]?.digest)
})

test('a log that was changed before the closing is reported', async () => {
  const { log, credit, process } = createWorld()
  await credit('2026-11-10T00:00:00.000Z', 100)
  const now = () => ms('2026-12-01T00:05:00.000Z')
  await process(now).close(month('2026-11'), operator)
  const changed: EventLog = {
    ...log,
    readAll: async (after, limit) =>
      (await log.readAll(after, limit)).map((event) => ({
        ...event,
        data: event.data.replace('"amountMicros":1000000', '"amountMicros":1000001'),
      })),
  }
  await assert.rejects(process(now, changed).show(month('2026-11'), now()), PeriodDiffers)
})

/** Clocks that run ahead, behind and back, around the end of a month. */
const jumps = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        kind: fc.constant('book' as const),
        offset: fc.integer({ min: -40_000, max: 40_000 }),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constant('line' as const),
        offset: fc.integer({ min: -40_000, max: 40_000 }),
        happened: fc.integer({ min: -90_000, max: 50_000 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant('close' as const),
        offset: fc.integer({ min: -10, max: 90_000 }),
        zone: fc.constantFrom('UTC', 'Europe/Berlin', 'America/Los_Angeles', 'Pacific/Kiritimati'),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant('fact' as const),
        offset: fc.integer({ min: -40_000, max: 40_000 }),
      }),
    },
  ),
  { minLength: 1, maxLength: 40 },
)

test('for any clocks and changes of the time zone a closed month never changes, and every entry is in exactly one month', async () => {
  await fc.assert(
    fc.asyncProperty(jumps, async (steps) => {
      const { log, credit, postLine, process } = createWorld()
      // Offsets are minutes around the end of November: about a month to each side.
      const at = (offset: number): number => ms('2026-12-01T00:00:00.000Z') + offset * minute
      const known = new Map<string, string>()
      for (const [n, step] of steps.entries()) {
        const { kind, offset } = step
        const iso = new Date(at(offset)).toISOString()
        if (kind === 'book') await credit(iso)
        else if (kind === 'line') await postLine(iso, new Date(at(step.happened)).toISOString())
        else if (kind === 'fact')
          await log.append(noticeStream(`ntc_${n}` as NoticeId), 'noStream', [
            {
              id: randomUUID(),
              type: 'NoticePublished',
              data: '{}',
              metadata: JSON.stringify({ recordedAt: iso }),
            },
          ])
        else {
          const period = month(
            new Date(at(offset) - 5 * minute - 31 * 24 * 60 * minute).toISOString().slice(0, 7),
          )
          const closed = await process(() => at(offset), log, step.zone)
            .close(period, operator)
            .catch((error) => {
              if (error instanceof PeriodRefused) return []
              throw error
            })
          for (const each of closed) {
            assert.equal(known.get(each.period) ?? each.digest, each.digest)
            known.set(each.period, each.digest)
          }
        }
      }
      const fold = createPeriodFold(await readPeriodEnds(log, utcCalendar))
      const events = (await log.readAll(0, 1000)).map(codec.decode)
      const reports = events.flatMap((event) => fold.take(event))
      for (const event of events)
        if (event.type === 'PeriodClosed') {
          const closed = event.data as Parameters<typeof differenceOf>[0]
          const report = reports.find(({ period }) => period === closed.period) ?? assert.fail(closed.period)
          assert.equal(differenceOf(closed, closingsOf(report)), null)
        }
      const folded = await foldLog(log)
      const booked = folded.flatMap(({ entry }) => entry ?? [])
      for (const { type, data, position } of events)
        if (type === 'PeriodCutOff') {
          const { endedAt } = data as { endedAt: string }
          for (const entry of booked) if (entry.position > position) assert.ok(entry.at >= endedAt)
        }
      for (const entry of booked) {
        const { at: now } = folded[entry.position - 1] ?? assert.fail()
        assert.ok(entry.at >= (folded[0]?.at ?? '') && entry.at <= now)
      }
      const entries = [...reports, ...fold.open()].reduce((sum, report) => sum + report.entries, 0)
      assert.equal(entries, booked.length)
    }),
    { numRuns: runs(200) },
  )
})

test('a month ends in the accounting time zone, and keeps its recorded end when the zone changes', async () => {
  const { log, credit, process } = createWorld()
  await credit('2026-10-10T00:00:00.000Z')
  await credit('2026-10-31T22:59:59.999Z', 200)
  await credit('2026-10-31T23:00:00.000Z', 400)
  const inBerlin = process(() => ms('2026-10-31T23:05:00.000Z'), log, 'Europe/Berlin')
  const early = process(() => ms('2026-10-31T23:05:00.000Z'))
  await assert.rejects(early.close(month('2026-10'), operator), /from 2026-11-01T00:05:00\.000Z on/)
  const [closed] = await inBerlin.close(month('2026-10'), operator)
  assert.deepEqual([closed?.entries, closed?.throughOrdinal], [2, 2])

  const inUtc = process(() => ms('2026-12-01T00:05:00.000Z'))
  const { report } = await inUtc.show(month('2026-10'), ms('2026-12-01T00:05:00.000Z'))
  assert.equal(report.entries, 2)
  const [november] = (await inUtc.close(month('2026-11'), operator)).slice(-1)
  assert.deepEqual([november?.period, november?.entries], ['2026-11', 1])
  const listed = await inUtc.list(ms('2026-12-01T00:05:00.000Z'))
  assert.deepEqual(listed.map(({ period, endMs }) => [period, new Date(endMs).toISOString()]).slice(0, 2), [
    ['2026-10', '2026-10-31T23:00:00.000Z'],
    ['2026-11', '2026-12-01T00:00:00.000Z'],
  ])
  const findings = createFindings()
  const check = createPeriodCheck(findings, await readPeriodEnds(log, utcCalendar))
  check.take(createEventReader().read(await log.readAll(0, 1000), 1))
  assert.deepEqual(findings.list(), [])
})

test('verification recomputes the report of each month, and names the closing that differs', () => {
  const event = (position: number, type: string, data: object, recordedAt: string) => ({
    id: `00000000-0000-7000-8000-${String(position).padStart(12, '0')}`,
    type,
    data: JSON.stringify(data),
    metadata: JSON.stringify({ correlationId: 'x', causationId: null, actor: operator.actor, recordedAt }),
    stream: type === 'WalletCredited' ? ledgerStream(account) : periodStream(month('2026-11')),
    revision: position - 1,
    position,
  })
  const credited = {
    source: 'manual',
    reference: 'r',
    gateway: 'manual',
    amountMicros: 10_000,
    receivableMicros: 0,
  }
  const first = event(1, 'WalletCredited', credited, '2026-11-10T00:00:00.000Z')
  const cut = event(
    2,
    'PeriodCutOff',
    { period: '2026-11', endedAt: '2026-12-01T00:00:00.000Z' },
    '2026-12-01T00:05:00.000Z',
  )
  const fold = createPeriodFold(utcEnds)
  const [report] = [first, cut].flatMap((stored) => fold.take(codec.decode(stored)))
  const closed = closedOf(report ?? assert.fail('no report'))
  const problems = (events: readonly ReturnType<typeof event>[]) => {
    const findings = createFindings()
    createPeriodCheck(findings, utcEnds).take(createEventReader().read(events, 1))
    return findings
      .list()
      .map((finding) => `${finding.check} ${'event' in finding ? finding.event.ordinal : ''}`)
  }
  const closing = event(3, 'PeriodClosed', closed, '2026-12-01T00:05:00.000Z')
  assert.deepEqual(problems([first, cut, closing]), [])
  const forged = event(3, 'PeriodClosed', { ...closed, digest: '0'.repeat(64) }, '2026-12-01T00:05:00.000Z')
  assert.deepEqual(problems([first, cut, forged]), ['periods 3'])
  const changed = event(
    1,
    'WalletCredited',
    { ...credited, amountMicros: 10_001 },
    '2026-11-10T00:00:00.000Z',
  )
  assert.deepEqual(problems([changed, cut, closing]), ['periods 3'])
  assert.deepEqual(problems([first, closing]), [])
  const early = event(2, 'PeriodClosed', closed, '2026-11-30T00:00:00.000Z')
  assert.deepEqual(problems([first, early]), ['periods 2'])
})

test('a month that was closed before resellers had debts in their books keeps its report', () => {
  let position = 0
  const event = (stream: string, type: string, data: object, at: string) => {
    position += 1
    const metadata = { correlationId: 'x', causationId: null, actor: operator.actor, recordedAt: at }
    const place = { id: newEventId(), stream, revision: position, position }
    return codec.decode({ ...place, ...codec.encode({ type, data }, metadata) } as never)
  }
  const money = (type: string, data: object) =>
    event(ledgerStream(account), type, { gateway: 'stripe', ...data }, '2026-11-10T00:00:00.000Z')
  const order = { family: 'isp', orderId: 'ord_1', customerId: null }
  const events = [
    event(
      'account-acc_1',
      'AccountCreated',
      { accountId: account, reseller: true },
      '2026-11-09T00:00:00.000Z',
    ),
    money('WalletCredited', { source: 'deposit', amountMicros: 100_000_000, receivableMicros: 0 }),
    money('WalletDebited', { order, amountMicros: 80_000_000 }),
    money('WalletAdjusted', {
      reason: 'chargeback',
      amountMicros: -100_000_000,
      receivableMicros: 80_000_000,
    }),
    money('WalletCredited', {
      source: 'refund',
      family: 'isp',
      amountMicros: 30_000_000,
      receivableMicros: 30_000_000,
    }),
    money('WalletAdjusted', { reason: 'goodwill', amountMicros: 60_000_000, receivableMicros: -50_000_000 }),
    event(
      'period-2026-11',
      'PeriodCutOff',
      { period: '2026-11', endedAt: '2026-12-01T00:00:00.000Z' },
      '2026-12-01T00:05:00.000Z',
    ),
  ]
  const fold = createPeriodFold(utcEnds)
  const [report] = events.flatMap((each) => fold.take(each))
  const now = report ?? assert.fail('no report')
  const own = (lines: typeof now.lines) =>
    lines
      .filter(({ book }) => book === 'reseller:acc_1')
      .map(({ account: name, debitMicros, creditMicros }) => [
        name,
        Number(debitMicros / 1_000_000n),
        Number(creditMicros / 1_000_000n),
      ])
  assert.deepEqual(own(now.lines), [
    ['assets:service-wallet', 110, 100],
    ['equity:funding', 100, 100],
    ['expenses:own-use', 80, 30],
    ['liabilities:service-debt', 80, 80],
    ['revenue:adjustments:goodwill', 0, 60],
  ])
  assert.deepEqual(own(inChartOf(now, {}).lines), [
    ['assets:service-wallet', 110, 100],
    ['equity:funding', 50, 110],
    ['expenses:own-use', 80, 30],
  ])
  const { chart: _, ...first } = closedOf(inChartOf(now, {}))
  const closings = closingsOf(now)
  assert.equal(first.accounts, closings.current.accounts - 2)
  for (const closed of [first, closedOf(now)]) assert.equal(differenceOf(closed, closings), null)
  assert.match(differenceOf({ ...closedOf(now), digest: first.digest }, closings) ?? '', /digest/)
  const { chart: __, ...unnumbered } = closedOf(now)
  assert.match(differenceOf(unnumbered, closings) ?? '', /accounts/)
  assert.match(differenceOf({ ...closedOf(now), chart: 3 }, closings) ?? '', /closed in chart 3/)
})

import { test } from 'node:test'
import type { StoredEvent } from '../../../src/platform/eventstore/port.ts'
import { type Cases, changed, dataOf, invariantsFindEach, type Log } from '../deeds.ts'

const set = (log: Log): StoredEvent => log.first('TrafficBudgetSet')
const reached = (log: Log, percent: number): StoredEvent =>
  log.first('TrafficBudgetReached', (data) => data.percent === percent)
const again = (event: StoredEvent, data = dataOf(event)) => ({ add: event, data })

const cases: Cases = {
  'a budget for another period than its id says': [
    (log) => changed(set(log), { period: 'day' }),
    /TrafficBudgetSet.*the id of the traffic budget is not the one of its target/,
  ],
  'a budget for the plan of another account': [
    (log) =>
      changed(
        log.first('PlanActivated', ({ planId }) => planId === dataOf(set(log)).planId),
        {
          accountId: 'acc_golden_reseller',
        },
      ),
    /TrafficBudgetSet.*plan pln_\w+ is of acc_golden_reseller/,
  ],
  'a budget that is set to the terms that it has': [
    (log) => again(log.events.findLast(({ type }) => type === 'TrafficBudgetSet')!),
    /the traffic budget has these terms already/,
  ],
  'a part that is not reported': [
    (log) => changed(reached(log, 100), { percent: 90 }),
    /TrafficBudgetReached.*90 % is not reported/,
  ],
  'a part that is not used': [
    (log) => changed(reached(log, 80), { usedBytes: 799_999_999 }),
    /TrafficBudgetReached.*799999999 bytes are less than 80 % of 1000000000/,
  ],
  'a part of another limit': [
    (log) => changed(reached(log, 80), { limitBytes: 900_000_000 }),
    /TrafficBudgetReached.*target or limit are not those of the traffic budget/,
  ],
  'a part of another target': [
    (log) => changed(reached(log, 80), { period: 'week' }),
    /TrafficBudgetReached.*target or limit are not those of the traffic budget/,
  ],
  'a period that ends before it begins': [
    (log) => changed(reached(log, 80), { countedUntil: '2020-01-01T00:00:00.000Z' }),
    /TrafficBudgetReached.*the count ends at 2020-01-01T00:00:00.000Z, before it begins/,
  ],
  'a part that is reported twice': [
    (log) => {
      const budgets = log.events.filter(({ stream }) => stream === set(log).stream)
      return again(budgets.findLast(({ type }) => type === 'TrafficBudgetReached')!)
    },
    /TrafficBudgetReached.*100 % were reported before/,
  ],
  'a reset and a part of a budget that is not set': [
    (log) => ({ remove: set(log) }),
    /TrafficBudgetReached.*the traffic budget tbg_\w+ is not set/,
  ],
  'a removal of a removed budget': [
    (log) => [
      { remove: log.events.findLast(({ type }) => type === 'TrafficBudgetSet')! },
      again(log.first('TrafficBudgetRemoved')),
    ],
    /TrafficBudgetRemoved.*the traffic budget tbg_\w+ is not set/,
  ],
}

test('traffic budgets that the service never writes are found', (t) => invariantsFindEach(t, cases))

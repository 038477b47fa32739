import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type BudgetTarget,
  countedSpan,
  decideBudget,
  decideBudgetRemoval,
  decideBudgetReset,
  decideReached,
  type TrafficBudgetEvent,
  type TrafficBudgetState,
  trafficBudgetRef,
} from '../../../src/domain/plans/traffic-budgets.ts'
import { applyDecided, type Decided } from '../../../src/kernel/decider.ts'
import type { AccountId, PlanId } from '../../../src/kernel/ids.ts'

const account = `acc_${'1'.repeat(32)}` as AccountId
const target: BudgetTarget = {
  scope: 'plan',
  planId: `pln_${'2'.repeat(32)}` as PlanId,
  lineSet: null,
  whitelistEntryId: null,
  customerId: null,
  period: 'day',
}
const berlin = { timeZone: 'Europe/Berlin', limitBytes: 1_000 }
const { fold } = trafficBudgetRef('tbg_1')
const noon = Date.parse('2026-11-29T12:00:00Z')
const apply = (state: TrafficBudgetState, { events }: Decided<TrafficBudgetEvent>, nowMs = noon) =>
  applyDecided(fold, state, events, nowMs)
const percents = ({ events }: Decided<TrafficBudgetEvent>): number[] =>
  events.map((event) => (event.type === 'TrafficBudgetReached' ? event.data.percent : -1))

test('a budget is set once for the same terms, and again after its removal', () => {
  const first = decideBudget(fold.initial, account, target, berlin)
  assert.deepEqual([first.isNew, first.events.length], [true, 1])
  const set = apply(fold.initial, first)
  const again = decideBudget(set, account, target, berlin)
  assert.deepEqual([again.isNew, again.events.length], [false, 0])
  const removed = apply(set, decideBudgetRemoval(set))
  assert.equal(decideBudgetRemoval(removed).events.length, 0)
  assert.deepEqual(decideBudget(removed, account, target, berlin).isNew, true)
})

test('80 and 100 % are reported once in a period, and again for another limit', () => {
  const set = apply(fold.initial, decideBudget(fold.initial, account, target, berlin))
  const used = (usedBytes: number, countedFromMs = noon) => ({ usedBytes, countedFromMs })
  assert.deepEqual(percents(decideReached(set, used(799))), [])
  assert.deepEqual(percents(decideReached(set, used(800))), [80])
  const low = apply(set, decideReached(set, used(800)))
  assert.deepEqual(percents(decideReached(low, used(999))), [])
  assert.deepEqual(percents(decideReached(low, used(1_000))), [100])
  assert.deepEqual(percents(decideReached(set, used(1_000))), [100], 'both at once')
  assert.deepEqual(percents(decideReached(low, used(900, noon + 1))), [80], 'another period')
  const raised = apply(low, decideBudget(low, account, target, { ...berlin, limitBytes: 1_100 }))
  assert.deepEqual(percents(decideReached(raised, used(1_000))), [80])
  const reported = apply(raised, decideReached(raised, used(799)))
  const lowered = apply(reported, decideBudget(reported, account, target, berlin))
  assert.deepEqual(percents(decideReached(lowered, used(999))), [], 'the former limit again')
  const removed = apply(low, decideBudgetRemoval(low))
  assert.deepEqual(percents(decideReached(removed, used(1_000))), [], 'removed')
  const again = apply(removed, decideBudget(removed, account, target, berlin))
  assert.deepEqual(percents(decideReached(again, used(1_000))), [100], 'set again')
})

test('bytes that no longer count are not reported', () => {
  const set = apply(fold.initial, decideBudget(fold.initial, account, target, berlin))
  const use = { usedBytes: 1_000, countedFromMs: noon - 1 }
  const reset = apply(set, decideBudgetReset(set))
  const { reachedPercent, limitBytes, events } = decideReached(reset, use)
  assert.deepEqual([reachedPercent, limitBytes, events.length], [null, 1_000, 0])
  const later = apply(set, decideReached(set, { usedBytes: 800, countedFromMs: noon }))
  assert.deepEqual(decideReached(later, use).reachedPercent, null, 'an earlier period')
})

test('a report names the target, the part and the end of the period', () => {
  const set = apply(fold.initial, decideBudget(fold.initial, account, target, berlin))
  const { events, reachedPercent } = decideReached(set, { usedBytes: 850, countedFromMs: noon })
  assert.equal(reachedPercent, 80)
  assert.deepEqual(events[0]?.data, {
    ...target,
    budgetId: set.budget?.budgetId,
    accountId: account,
    percent: 80,
    usedBytes: 850,
    limitBytes: 1_000,
    countedFrom: '2026-11-29T12:00:00.000Z',
    countedUntil: '2026-11-29T23:00:00.000Z',
  })
})

test('a budget counts from its creation or its last reset, and a new time zone begins a new count', () => {
  const set = apply(fold.initial, decideBudget(fold.initial, account, target, berlin))
  assert.equal(set.resetAtMs, noon)
  const raised = apply(set, decideBudget(set, account, target, { ...berlin, limitBytes: 2_000 }), noon + 1)
  assert.equal(raised.resetAtMs, noon, 'a raised limit continues the count')
  const moved = apply(raised, decideBudget(raised, account, target, { ...berlin, timeZone: 'UTC' }), noon + 2)
  assert.equal(moved.resetAtMs, noon + 2)
  const removed = apply(moved, decideBudgetRemoval(moved), noon + 3)
  const again = apply(removed, decideBudget(removed, account, target, berlin), noon + 4)
  assert.equal(again.resetAtMs, noon + 4, 'nothing was counted after the removal')
})

test('bytes count from the start of the period in its time zone, or from a later reset', () => {
  const from = (period: 'day' | 'week' | 'month', resetAtMs = 0) => {
    const { fromMs, toMs } = countedSpan({ period, timeZone: 'Europe/Berlin' }, resetAtMs, noon)
    return [fromMs, toMs].map((ms) => new Date(ms).toISOString())
  }
  assert.deepEqual(from('day'), ['2026-11-28T23:00:00.000Z', '2026-11-29T23:00:00.000Z'])
  assert.deepEqual(from('week'), ['2026-11-22T23:00:00.000Z', '2026-11-29T23:00:00.000Z'])
  assert.deepEqual(from('month'), ['2026-10-31T23:00:00.000Z', '2026-11-30T23:00:00.000Z'])
  assert.deepEqual(from('day', noon - 1)[0], '2026-11-29T11:59:59.999Z')
  assert.deepEqual(from('day', noon - 86_400_000)[0], '2026-11-28T23:00:00.000Z')
  const set = apply(fold.initial, decideBudget(fold.initial, account, target, berlin))
  assert.equal(apply(set, decideBudgetReset(set)).resetAtMs, noon)
})

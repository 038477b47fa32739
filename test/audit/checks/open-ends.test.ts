import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { findingText } from '../../../src/audit/checks/finding.ts'
import { verifyLog } from '../../../src/audit/verify.ts'
import { isoTime } from '../../../src/kernel/clock.ts'
import { type NoticeId, newEventId, newId } from '../../../src/kernel/ids.ts'
import { noticeStream } from '../../../src/kernel/streams.ts'
import type { StoredEvent } from '../../../src/platform/eventstore/port.ts'
import {
  type Cases,
  changed,
  type Deed,
  dataOf,
  type Facts,
  invariantsFindEach,
  type Log,
  verificationFindsEach,
} from '../deeds.ts'
import { appendEach, auditWorld, everyKind, tamper } from '../world.ts'

const deposited = (log: Log): StoredEvent => log.first('WalletCredited', ({ source }) => source === 'deposit')
const ofPayment = (log: Log, type: string): StoredEvent =>
  log.first(type, ({ paymentId }) => paymentId === dataOf(deposited(log)).reference)
const applied = (log: Log): StoredEvent => log.first('ManualMovementApplied')
const finished = (log: Log): StoredEvent => log.first('ScrapeFinished')
const captured = (log: Log): StoredEvent => log.first('HoldCaptured')
const canceled = (log: Log): StoredEvent => log.first('OrderCanceled')
const batchOver = (log: Log): StoredEvent => log.first('ScrapeBatchFinished')
const delivered = (log: Log): StoredEvent => log.first('DeliverySucceeded')

/** All events that are about an order and of one of these kinds are gone. */
const without = (log: Log, orderId: string, ...types: readonly string[]): readonly Deed[] =>
  log.events
    .filter((event) => {
      const { order, orderId: named }: Facts = dataOf(event)
      return types.includes(event.type) && (order?.orderId ?? named) === orderId
    })
    .map((event) => ({ remove: event }))

/** Only the end of the log shows that something is missing. */
const missing: Cases = {
  'a finished order without its last event': [
    (log) => without(log, 'ord_golden_plan', 'OrderCompleted'),
    /PlanActivated.*order ord_golden_plan was fulfilled, and its own stream does not say so/,
  ],
  'a paid order without an answer': [
    (log) => without(log, 'ord_golden_plan', 'OrderCompleted', 'PlanActivated'),
    /WalletDebited.*order ord_golden_plan is paid, and its allocation owner gave no answer/,
  ],
  'an order that was refused and did not fail': [
    (log) => {
      const { orderId } = dataOf(log.first('PlanOrderRefused'))
      return without(log, orderId, 'OrderFailed', 'RefundDecided', 'WalletCredited', 'OrderRefunded')
    },
    /order ord_golden_late was refused by its allocation owner, and did not fail/,
  ],
  'an order that failed and whose money stayed': [
    (log) => {
      const { orderId } = dataOf(log.first('PlanOrderRefused'))
      return without(log, orderId, 'RefundDecided', 'WalletCredited', 'OrderRefunded')
    },
    /order ord_golden_late was not fulfilled, and no refund of the whole payment was decided/,
  ],
  'a refund that was decided and not paid': [
    (log) => without(log, 'ord_golden_ended', 'WalletCredited', 'OrderRefunded'),
    /order ord_golden_ended has a refund that was decided, and did not come to its end/,
  ],
  'a refund that was paid and not noted': [
    (log) => without(log, 'ord_golden_ended', 'OrderRefunded'),
    /order ord_golden_ended has a refund that was decided, and did not come to its end/,
  ],
  'an order whose payment is gone': [
    (log) => without(log, 'ord_golden_plan', 'WalletDebited'),
    /order ord_golden_plan says that it is paid, and its payment is missing/,
  ],
  'a top-up that was neither paid nor failed': [
    (log) => ({ remove: log.first('TopupFailed', ({ reason }) => reason === 'invoice_expired') }),
    /top-up top_\w+ was requested, and neither paid nor failed/,
  ],
  'an order that awaits a deposit that is over': [
    (log) => ({ remove: canceled(log) }),
    /deposit dep_\w+ is over, and order ord_\w+ still awaits it/,
  ],
  'a payment that was credited and not marked': [
    (log) => ({ remove: ofPayment(log, 'DepositPaymentCredited') }),
    /payment \S+ of deposit dep_\w+ was credited, and the deposit does not say so/,
  ],
  'a payment that arrived and was not credited': [
    (log) => [{ remove: ofPayment(log, 'DepositPaymentCredited') }, { remove: deposited(log) }],
    /payment \S+ of deposit dep_\w+ arrived, and no ledger credits it/,
  ],
  'a deposit that was paid and does not say so': [
    (log) => ({
      remove: log.events.findLast(({ type, data }) => type === 'DepositSettled' && data.includes('"paid"'))!,
    }),
    /deposit dep_\w+ has what it invoiced, and does not say that it is paid/,
  ],
  'a deposit that was never closed': [
    (log) => ({ remove: log.first('DepositExpired') }),
    /deposit dep_\w+ is neither paid nor closed, and its time is over/,
  ],
  'a movement by hand that is not marked': [
    (log) => ({ remove: applied(log) }),
    /a movement by hand was moved, and its record does not say so/,
  ],
  'a movement by hand that was only recorded': [
    (log) => [{ remove: applied(log) }, { remove: log.first('WalletCredited') }],
    /a movement by hand was recorded, and neither moved nor withdrawn/,
  ],
  'a call that never ended': [
    (log) => [{ remove: finished(log) }, { remove: captured(log) }],
    /call scr_\w+\.1 was started, and never ended/,
  ],
  'a call whose hold stands': [
    (log) => ({ remove: captured(log) }),
    /ScrapeFinished.*call scr_\w+\.1 is over, and its hold is not/,
  ],
  'a period that was paid and that no subscription has': [
    (log) => ({ remove: log.first('SubscriptionRenewed') }),
    /order ord_\w+ paid a period, and its subscription does not name it/,
  ],
  'a subscription whose end is gone': [
    (log) => ({ remove: log.first('SubscriptionCanceled') }),
    /subscription sub_golden_stopped is neither renewed nor over, and the period that was paid is/,
  ],
  'a rental whose end is gone': [
    (log) => ({ remove: log.events.findLast(({ type }) => type === 'AddressesReleased')! }),
    /rental prx_\w+ is over, and its address was not taken back/,
  ],
  'a batch whose end is gone': [
    (log) => ({ remove: batchOver(log) }),
    /batch scb_\w+ was taken on, and is not over/,
  ],
  'an event in the middle of a stream is gone': [
    (log) => ({ remove: log.first('SubscriptionCancelScheduled') }),
    /revisions: .*SubscriptionCanceled/,
  ],
}

/** A later event shows it. */
const contradicted: Cases = {
  'a batch that is over twice': [
    (log) => ({ add: batchOver(log), data: dataOf(batchOver(log)) }),
    /batch scb_\w+ was over before/,
  ],
  'a batch that was never accepted': [
    (log) => ({ remove: log.first('ScrapeBatchAccepted') }),
    /batch scb_\w+ was never taken on/,
  ],
  'a batch of another account': [
    (log) => changed(batchOver(log), { accountId: 'acc_golden_reseller' }),
    /it is \{"accountId":"acc_golden_reseller".* was taken on/,
  ],
  'a batch with calls that came to nothing': [
    (log) => changed(batchOver(log), { found: 0 }),
    /it has 2 calls, and 1 of them came to something/,
  ],
  'a batch under the id of another request': [
    (log) => changed(log.first('ScrapeBatchAccepted'), { requestId: 'another' }),
    /the batch of request another is scb_/,
  ],
  'a delivery whose end is gone': [
    (log) => ({ remove: delivered(log) }),
    /delivery \S+ came to no end|it is under way already/,
  ],
  'a delivery that ends twice': [
    (log) => ({ add: delivered(log), data: dataOf(delivered(log)) }),
    /nothing is under way here that could end so|it is \S+ that is under way here/,
  ],
}

describe('work that began long ago is finished', () => {
  test('a verification finds a missing next step in another stream', (t) => verificationFindsEach(t, missing))

  test('an invariant reports a step that another event contradicts', (t) =>
    invariantsFindEach(t, contradicted))

  test('a service that was down has ten minutes to finish overdue work', async (t) => {
    const { log, pool } = await auditWorld(t)
    const events = await everyKind()
    await appendEach(log, events)
    await tamper(pool, ["delete from log.events where type = 'OrderCompleted'"])
    const lastMs = Math.max(...events.map(({ metadata }) => Date.parse(JSON.parse(metadata).recordedAt)))
    const findingTexts = async (): Promise<readonly string[]> => {
      const options = { runId: newId<string>('vrf'), publicKey: '', exported: null }
      const { findings } = await verifyLog({ pool, log, groups: [], logInPostgres: true }, options)
      return findings.map(findingText).filter((text) => text.includes('order ord_golden_plan was fulfilled'))
    }
    assert.notDeepEqual(await findingTexts(), [])
    const hourMs = 3_600_000
    // Only the open order and the events after the outage remain.
    await tamper(pool, [
      `delete from log.events where (metadata::jsonb ->> 'recordedAt')::timestamptz >
        (select (metadata::jsonb ->> 'recordedAt')::timestamptz from log.events
          where type = 'PlanActivated' and data::jsonb ->> 'orderId' = 'ord_golden_plan')`,
    ])
    assert.deepEqual(await findingTexts(), [], 'it stopped right after')
    const back = async (name: string, afterMs: number): Promise<void> => {
      const [event] = events
      assert.ok(event)
      const recordedAt = isoTime(lastMs + afterMs)
      const metadata = JSON.stringify({ ...JSON.parse(event.metadata), recordedAt })
      const { type, data } = event
      await log.append(noticeStream(name as NoticeId), 'noStream', [
        { id: newEventId(), type, data, metadata },
      ])
    }
    await back('ntc_first', 72 * hourMs)
    await back('ntc_next', 72 * hourMs + 9 * 60_000)
    assert.deepEqual(await findingTexts(), [], 'nine minutes after it came back')
    await back('ntc_later', 72 * hourMs + 11 * 60_000)
    assert.notDeepEqual(await findingTexts(), [], 'eleven minutes after it came back')
  })
})

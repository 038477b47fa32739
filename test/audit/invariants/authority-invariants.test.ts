import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { accountStream } from '../../../src/kernel/streams.ts'
import type { StoredEvent } from '../../../src/platform/eventstore/port.ts'
import {
  type Cases,
  changed,
  type Deed,
  dataOf,
  type Facts,
  invariantsFindEach,
  type Log,
  violationsOf,
} from '../deeds.ts'
import { everyKind } from '../world.ts'

const debit = (log: Log, orderId: string): StoredEvent =>
  log.first('WalletDebited', ({ order }) => order.orderId === orderId)
const keyed = (log: Log): StoredEvent => debit(log, 'ord_golden_key')
const capped = (log: Log): StoredEvent => debit(log, 'ord_golden_capped')
const isOfCapped = ({ capKeyId }: Facts): boolean => capKeyId === 'key_capped'
const cappedHold = (log: Log): StoredEvent => log.first('FundsHeld', isOfCapped)
const issued = (log: Log, keyId = 'key_golden'): StoredEvent =>
  log.first('KeyIssued', (data) => data.keyId === keyId)

const reordered = (event: StoredEvent, order: Facts): Deed =>
  changed(event, { order: { ...dataOf(event).order, ...order } })
const causedBy = (event: StoredEvent, actor: Facts): Deed => ({ change: event, metadata: { actor } })
const person = (log: Log): Facts => JSON.parse(debit(log, 'ord_golden_person').metadata).actor

const bob = 'stf_golden_bob'
const approver = (log: Log): Facts => JSON.parse(log.first('ProposalApproved').metadata).actor

const cases: Cases = {
  'a key that was never issued': [
    (log) => ({ remove: issued(log) }),
    /acc_golden_buyer has no key key_golden at this place of the log/,
  ],
  'an order that names a key that there is not': [
    (log) => reordered(debit(log, 'ord_golden_plan'), { keyId: 'key_none' }),
    /acc_golden_buyer has no key key_none at this place of the log/,
  ],
  'an order that names the key of another account': [
    (log) => reordered(debit(log, 'ord_golden_plan'), { keyId: 'key_next' }),
    /acc_golden_buyer has no key key_next at this place of the log/,
  ],
  'an order that is caused by another key than it names': [
    (log) => reordered(keyed(log), { keyId: 'key_next' }),
    /it names key key_next, and key key_golden caused it|acc_golden_buyer has no key key_next/,
  ],
  'an order under the cap of another key': [
    (log) => reordered(keyed(log), { capKeyId: 'key_other' }),
    /key key_golden spends under key_golden, not under key_other/,
  ],
  'an order that names another cap than its key has': [
    (log) => changed(capped(log), { keyCap: { ...dataOf(capped(log)).keyCap, capCents: 1_800 } }),
    /it names a cap of 1800 cents that covers everything, and its key has no such cap/,
  ],
  'an order that names less than its key spent': [
    (log) => changed(capped(log), { keyCap: { ...dataOf(capped(log)).keyCap, spentMicros: 14_000_000 } }),
    /it says that \$14\.00 were spent, and \$15\.00 are in the log/,
  ],
  'a call beyond a cap that covers everything': [
    (log) => changed(cappedHold(log), { amountMicros: 2_500_000 }),
    /FundsHeld.*key key_capped spent \$17\.50 in 24 hours, more than its cap of \$17\.00/,
  ],
  'a call beyond a cap that covers everything, after a billed call': [
    (log) => changed(log.first('HoldCaptured', isOfCapped), { amountMicros: 2_500_000 }),
    /FundsHeld.*key key_capped spent \$17\.503 in 24 hours, more than its cap of \$17\.00/,
  ],
  'an event of a key that there is not': [
    (log) => causedBy(keyed(log), { kind: 'key', accountId: 'acc_golden_buyer', keyId: 'key_none' }),
    /acc_golden_buyer has no key key_none at this place of the log/,
  ],
  'an event of a key of another account': [
    (log) => {
      const actor = { kind: 'key', accountId: 'acc_golden_reseller', keyId: 'key_next' }
      return causedBy(log.first('ScrapeStarted'), actor)
    },
    /a key of acc_golden_reseller caused what is of acc_golden_buyer/,
  ],
  'an event of a key that was revoked': [
    (log) => ({
      change: log.first('KeyRevoked'),
      data: { keyId: 'key_golden' },
    }),
    /acc_golden_reseller has no key key_golden/,
  ],
  'a key that was revoked before it bought': [
    (log) => [
      {
        change: log.first('KeyCapped', ({ keyId }) => keyId === 'key_golden'),
        type: 'KeyRevoked',
        data: { keyId: 'key_golden' },
      },
    ],
    /WalletDebited.*key key_golden was over since 2026-07-21T/,
  ],
  'a key that had expired before it bought': [
    (log) => changed(issued(log), { expiresAt: '2026-08-01T00:00:00.000Z' }),
    /WalletDebited.*key key_golden was over since 2026-08-01T/,
  ],
  'an account that was blocked before it bought': [
    (log) => ({
      change: log.first('KeyCapped', ({ keyId }) => keyId === 'key_golden'),
      type: 'AccountBlocked',
      data: { reason: 'fraud' },
    }),
    /WalletDebited.*acc_golden_buyer was blocked since 2026-07-21T/,
  ],
  'an order of a key that may not buy': [
    (log) => changed(issued(log), { scopes: ['scrape'] }),
    /WalletDebited.*key key_golden may not buy; it may: scrape/,
  ],
  'a scrape of a key that may not scrape': [
    (log) => changed(issued(log), { scopes: ['buy'] }),
    /ScrapeStarted.*key key_golden may not scrape; it may: buy/,
  ],
  "a scrape with another account's key": [
    (log) => changed(log.first('ScrapeStarted'), { keyId: 'key_next' }),
    /ScrapeStarted.*acc_golden_buyer has no key key_next/,
  ],
  "a subscription with another account's key": [
    (log) => changed(log.first('SubscriptionStarted'), { keyId: 'key_next' }),
    /SubscriptionStarted.*acc_golden_buyer has no key key_next/,
  ],
  'a key that is issued twice': [
    (log) => ({ add: issued(log), data: dataOf(issued(log)) }),
    /key key_golden was issued before/,
  ],
  'a key that takes the place of none': [
    (log) => changed(issued(log, 'key_next'), { rolledFrom: 'key_none' }),
    /it takes the place of key_none, which acc_golden_reseller does not have/,
  ],
  'a key that may more than the one whose place it takes': [
    (log) => changed(issued(log, 'key_next'), { scopes: ['buy', 'scrape', 'finance'] }),
    /key_other, whose place it takes, may do: buy scrape/,
  ],
  'a key that is revoked and was never issued': [
    (log) => changed(log.first('KeyRevoked'), { keyId: 'key_none' }),
    /acc_golden_reseller has no key key_none/,
  ],
  'an order in a session that never began': [
    (log) => causedBy(debit(log, 'ord_golden_person'), { ...person(log), sessionId: 'ses_none' }),
    /no session ses_none of acc_golden_buyer was begun/,
  ],
  'an order in a session whose beginning is gone': [
    (log) => ({ remove: log.first('SignedIn', ({ sessionId }) => sessionId === person(log).sessionId) }),
    /no session ses_golden_link of acc_golden_buyer was begun/,
  ],
  'an order in a session that began too long ago': [
    (log) => ({
      change: log.first('SignedIn', ({ sessionId }) => sessionId === person(log).sessionId),
      metadata: { recordedAt: '2026-07-01T00:00:00.000Z' },
    }),
    /session ses_golden_link of acc_golden_buyer was over since 2026-07-31T/,
  ],
  'an approval in a session that no staff member began': [
    (log) => ({ remove: log.first('SignedIn', ({ subjectId }) => subjectId === bob) }),
    /ProposalApproved.*no session ses_golden_bob of stf_golden_bob was begun/,
  ],
  'an approval in a session of another member of the staff': [
    (log) => causedBy(log.first('ProposalApproved'), { ...approver(log), sessionId: 'ses_golden_passkey' }),
    /ProposalApproved.*no session ses_golden_passkey of stf_golden_bob was begun/,
  ],
  'an approval in a session that was over': [
    (log) => ({
      change: log.first('SignedIn', ({ subjectId }) => subjectId === bob),
      metadata: { recordedAt: '2026-07-22T00:00:00.000Z' },
    }),
    /ProposalApproved.*session ses_golden_bob of stf_golden_bob was over since 2026-07-22T12/,
  ],
  'an approval by a person outside the staff': [
    (log) => ({ remove: log.first('StaffRoleGranted', ({ staffId }) => staffId === bob) }),
    /ProposalApproved.*stf_golden_bob is no member of the staff with the role operator/,
  ],
  'an approval by a staff member with another role': [
    (log) =>
      changed(
        log.first('StaffRoleGranted', ({ staffId }) => staffId === bob),
        { role: 'finance' },
      ),
    /ProposalApproved.*stf_golden_bob is no member of the staff with the role operator/,
  ],
  'a look at the pages of an account without a role': [
    (log) => ({
      remove: log.first(
        'StaffRoleGranted',
        ({ staffId, role }) => staffId === 'stf_golden' && role === 'operator',
      ),
    }),
    /AccountViewed.*stf_golden is no member of the staff with the role operator/,
  ],
  'a read in a session that never began': [
    (log) => changed(log.first('AccountViewed'), { sessionId: 'ses_none' }),
    /AccountViewed.*no session ses_none of stf_golden was begun/,
  ],
  'a retry of work attributed to another operator': [
    (log) => changed(log.first('WorkRetryAsked'), { staffId: bob }),
    /WorkRetryAsked.*it is about stf_golden_bob/,
  ],
  'a role that a person of the console grants': [
    (log) => causedBy(log.first('StaffRoleGranted'), approver(log)),
    /roles of the staff are granted and revoked at the command line alone/,
  ],
  'a role in the stream of another staff member': [
    (log) => changed(log.first('StaffRoleGranted'), { staffId: bob }),
    /it is about stf_golden_bob/,
  ],
  'a role that is revoked and was never granted': [
    (log) => changed(log.first('StaffRoleRevoked'), { staffId: 'stf_none' }),
    /stf_none was never granted the role finance/,
  ],
}

describe('an act of a key or person needs its permission', () => {
  test('acts without permission are reported', (t) => invariantsFindEach(t, cases))
})

/** What is found when the cap of a key changes twice before its order, which names the first cap. */
const violationsAfterChanges = async (secondsBefore: readonly [number, number]) => {
  const events = await everyKind()
  const index = events.findIndex(
    ({ type, data }) => type === 'WalletDebited' && data.includes('"ord_golden_capped"'),
  )
  const order = events[index]!
  const metadata = JSON.parse(order.metadata)
  const changes = secondsBefore.map((seconds, number): StoredEvent => {
    const recordedAt = new Date(Date.parse(metadata.recordedAt) - seconds * 1000).toISOString()
    return {
      ...order,
      stream: accountStream('acc_golden_buyer' as AccountId),
      type: 'KeyCapped',
      data: JSON.stringify({
        keyId: 'key_capped',
        dailyCapCents: number + 1,
        capCovers: 'orders',
        capKeyId: 'key_capped',
      }),
      metadata: JSON.stringify({ ...metadata, recordedAt }),
    }
  })
  const found = violationsOf([...events.slice(0, index), ...changes, order])
  return found.filter((text) => text.startsWith('WalletDebited'))
}

test('an order may use each cap that its key had in the last minute', async () => {
  assert.deepEqual(await violationsAfterChanges([50, 20]), [])
  assert.match((await violationsAfterChanges([70, 20])).join(), /more than its cap of \$0\.02/)
})

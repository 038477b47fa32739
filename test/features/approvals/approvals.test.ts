import assert from 'node:assert/strict'
import { test } from 'node:test'
import { proposalIdOf, proposalLifetimeMs } from '../../../src/domain/ledger/decide-approval.ts'
import { createProposals } from '../../../src/features/approvals/approval-service.ts'
import { createWallets } from '../../../src/features/wallet/wallet-service.ts'
import type { Actor } from '../../../src/kernel/event.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { newEventId } from '../../../src/kernel/ids.ts'
import { accountStream, approvalLimitsStream } from '../../../src/kernel/streams.ts'
import { allEvents } from '../../audit/world.ts'
import { codec, runnerOver } from '../../platform/commands/world.ts'
import fc, { runs } from '../../support/fast-check.ts'
import { createMemoryLog } from '../../support/memory-log.ts'

const accountId = 'acc_000000000000000000000000000000a1' as AccountId
const startMs = Date.parse('2026-11-25T00:00:00.000Z')
const limitCents = 100
const people: Readonly<Record<string, Actor>> = {
  alice: { kind: 'operator', name: 'alice' },
  bob: { kind: 'session', subjectId: 'stf_bob', sessionId: 'ses_1', method: 'passkey' },
  // Another session of the same person.
  bobAgain: { kind: 'session', subjectId: 'stf_bob', sessionId: 'ses_2', method: 'passkey' },
  carol: { kind: 'operator', name: 'carol' },
  customer: { kind: 'session', subjectId: accountId, sessionId: 'ses_3', method: 'link' },
}
const causeOf = (who: string) => ({ actor: people[who]!, correlationId: 'run_test' })

/** These proposals refund no deposit. */
const noDb = undefined as never

/** Two processes on one log, with a limit in force. */
const openWorld = async () => {
  const log = createMemoryLog()
  const clock = { nowMs: startMs }
  const metadata = (recordedMs: number) =>
    JSON.stringify({
      correlationId: 'run_test',
      causationId: null,
      actor: people.alice,
      recordedAt: new Date(recordedMs).toISOString(),
    })
  const given = (type: string, data: object) => ({
    id: newEventId(),
    type,
    data: JSON.stringify(data),
    metadata: metadata(startMs - 60_000),
  })
  await log.append(accountStream(accountId), 'noStream', [
    given('AccountCreated', { accountId, reseller: false }),
  ])
  const from = new Date(startMs).toISOString()
  await log.append(approvalLimitsStream, 'noStream', [
    given('FourEyesSet', { limitCents, from, proposalId: null }),
  ])
  const instances = [1, 2].map(() => {
    const runner = runnerOver(log, { clock: () => clock.nowMs })
    const wallets = createWallets({ runner })
    const other = { db: noDb, ownGatewayIds: [], settleTraffic: async () => undefined }
    const proposals = createProposals({ runner, log, ...other })
    return { runner, wallets, proposals }
  })
  return {
    log,
    clock,
    instances,
    close: async () => {
      for (const { runner } of instances) await runner.close()
    },
  }
}

const idOf = (reference: string) => proposalIdOf({ kind: 'credit', accountId, reference, amountMicros: 1 })

const step = fc.record({
  who: fc.constantFrom(...Object.keys(people).filter((name) => name !== 'customer')),
  instance: fc.constantFrom(0, 1),
  reference: fc.constantFrom('a', 'b'),
  act: fc.oneof(
    fc.record({ kind: fc.constant('ask' as const), cents: fc.constantFrom(100, 101, 5_000) }),
    fc.record({ kind: fc.constant('approve' as const) }),
    fc.record({ kind: fc.constantFrom('declined' as const, 'withdrawn' as const) }),
    fc.record({ kind: fc.constant('by a customer' as const) }),
  ),
})
const moment = fc.record({
  /** Requested at once, from both processes. */
  steps: fc.array(step, { minLength: 1, maxLength: 4 }),
  thenMs: fc.constantFrom(1_000, 1_000, proposalLifetimeMs),
})

test('for any order of proposals, approvals and retries each is executed at most once and never by its proposer', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(moment, { minLength: 2, maxLength: 8 }), async (moments) => {
      const world = await openWorld()
      for (const { steps, thenMs } of moments) {
        await Promise.all(
          steps.map(async ({ who, instance, reference, act }) => {
            const { wallets, proposals } = world.instances[instance]!
            if (act.kind === 'ask')
              return wallets.credit({ accountId, amountCents: act.cents, reference }, causeOf(who))
            if (act.kind === 'approve') return proposals.approve(idOf(reference), causeOf(who))
            if (act.kind !== 'by a customer')
              return proposals.close(idOf(reference), { reason: act.kind, note: null }, causeOf(who))
            const answer = await proposals.approve(idOf(reference), causeOf('customer'))
            assert.ok('outcome' in answer && answer.outcome === 'refused')
          }),
        )
        world.clock.nowMs += thenMs
      }
      await world.close()
      const moved = new Map<string, number>()
      const proposers = new Map<string, { by: string; micros: number; atMs: number }>()
      const approved = new Map<string, number>()
      for (const stored of await allEvents(world.log)) {
        // biome-ignore lint/suspicious/noExplicitAny: facts of many shapes
        const { type, data, metadata } = codec.decode(stored) as any
        const atMs = Date.parse(metadata.recordedAt)
        if (type === 'ProposalMade')
          proposers.set(data.proposalId, { by: data.by, micros: data.what.amountMicros, atMs })
        if (type === 'ProposalApproved') {
          const made = proposers.get(data.proposalId)!
          assert.notEqual(data.by, made.by)
          assert.ok(atMs < made.atMs + proposalLifetimeMs)
          assert.ok(!approved.has(data.proposalId), 'approved once')
          approved.set(data.proposalId, made.micros)
        }
        if (type !== 'WalletCredited') continue
        assert.ok(!moved.has(data.reference), 'carried out once')
        moved.set(data.reference, data.amountMicros)
        if (data.amountMicros > limitCents * 10_000)
          assert.equal(approved.get(idOf(data.reference)), data.amountMicros, 'approved before, to the micro')
      }
      for (const [proposalId, micros] of approved)
        assert.ok(
          [...moved].some(([reference, amount]) => idOf(reference) === proposalId && amount === micros),
          'what was approved was carried out',
        )
    }),
    { numRuns: runs(80) },
  )
})

test('a limit is lowered by one operator, and raised or removed by two', async () => {
  const { instances, clock, close } = await openWorld()
  const { proposals, wallets } = instances[0]!
  const credit = (reference: string, who = 'alice') =>
    wallets.credit({ accountId, amountCents: 5_000, reference }, causeOf(who))
  const lowered = await proposals.setLimit(50, causeOf('alice'))
  assert.deepEqual(lowered, { outcome: 'set', changed: true, fromMs: startMs + 60_000 })
  const lifted = await proposals.setLimit(null, causeOf('alice'))
  assert.ok(lifted.outcome === 'proposed')
  const { proposalId } = lifted.proposal
  const own = await proposals.approve(proposalId, causeOf('alice'))
  assert.deepEqual(own, { outcome: 'refused', refusal: { code: 'own_proposal' } })
  assert.equal((await credit('before')).outcome, 'proposed')
  const done = await proposals.approve(proposalId, causeOf('carol'))
  assert.ok('of' in done && done.of === 'setting')
  assert.equal((await credit('still')).outcome, 'proposed', 'until a minute later')
  clock.nowMs += 60_000
  assert.equal((await credit('after')).outcome, 'applied')
  // Repeated, it does not undo later settings.
  await proposals.setLimit(70, causeOf('bob'))
  const again = await proposals.approve(proposalId, causeOf('carol'))
  assert.deepEqual(again, {
    outcome: 'refused',
    refusal: { code: 'proposal_closed', status: 'approved' },
  })
  clock.nowMs += 60_000
  const waits = await credit('later')
  assert.equal(waits.outcome, 'proposed')
  assert.deepEqual(await credit('later'), { ...waits, now: false }, 'a retry proposes nothing new')
  const other = await wallets.credit({ accountId, amountCents: 6_000, reference: 'later' }, causeOf('alice'))
  assert.equal(other.outcome, 'not_proposed')
  await close()
})

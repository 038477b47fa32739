import assert from 'node:assert/strict'
import { test } from 'node:test'
import { violationsTable } from '../../../src/audit/invariants/invariant.ts'
import { walletRules } from '../../../src/audit/invariants/wallet-invariants.ts'
import type { DomainEvent, RecordedEvent } from '../../../src/kernel/event.ts'
import type { StreamName } from '../../../src/kernel/streams.ts'
import { account, play, type WalletCommand } from '../../domain/ledger/support.ts'
import { foldInMemory } from '../../projections/memory-rows.ts'

const recorded = (event: DomainEvent, index: number): RecordedEvent => ({
  ...event,
  id: `event-${index}`,
  stream: (event.type === 'AccountCreated' ? `account-${account}` : `ledger-${account}`) as StreamName,
  revision: index,
  position: index + 1,
  metadata: {
    correlationId: 'test',
    causationId: null,
    actor: { kind: 'system', name: 'test' },
    recordedAt: '2026-12-01T00:00:00.000Z',
  },
})

/** The violated rules of a wallet's events. */
const rulesOf = (events: readonly DomainEvent[]): readonly string[] => {
  const created: DomainEvent = { type: 'AccountCreated', data: { accountId: account, reseller: true } }
  const all = [created, ...events].map(recorded)
  return foldInMemory(walletRules, all, [violationsTable])(violationsTable).map(({ rule }) => rule)
}

const commands: readonly WalletCommand[] = [
  { kind: 'credit', source: 'deposit', reference: 'pi_1', amountMicros: 30_000 },
  { kind: 'hold', holdId: 'hold_1', amountMicros: 30_000 },
  { kind: 'adjust', reference: 'cb_1', reason: 'chargeback', amountMicros: -20_000 },
  { kind: 'release', holdId: 'hold_1' },
]

test('a release that does not pay the debt is a violation', () => {
  const played = play(commands.map((command) => ({ afterMs: 0, command }))).flatMap(({ events }) => events)
  assert.deepEqual(rulesOf(played), [])
  const unpaid = played.map((event): DomainEvent => {
    if (event.type !== 'HoldReleased') return event
    const { debtChangeMicros: _, ...data } = event.data
    return { type: event.type, data: { ...data, availableAfterMicros: data.amountMicros } }
  })
  assert.deepEqual(rulesOf(unpaid), ['money-beside-debt'])
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { proposalIdOf } from '../../../src/domain/ledger/decide-approval.ts'
import type { ManualMovement } from '../../../src/domain/ledger/manual-movements.ts'
import { sealStream } from '../../../src/kernel/streams.ts'
import type { StoredEvent } from '../../../src/platform/eventstore/port.ts'
import { violationsOf } from '../deeds.ts'
import { everyKind } from '../world.ts'

// biome-ignore lint/suspicious/noExplicitAny: facts of many shapes
type Facts = any
type Change = readonly [event: StoredEvent, data: Facts | null, metadata?: Facts, become?: 'seal']

/** Changes of the history of four eyes in the golden log, each with what must be found. */
const cases: Readonly<Record<string, readonly [changes: (log: Log) => readonly Change[], finding: RegExp]>> =
  {
    'a movement without a proposal': [
      ({ made, approved, large }) => [
        [made(large), null],
        [approved(large), null],
      ],
      /\$250\.00 by hand, above the \$100\.00 .* without a proposal/,
    ],
    'a movement without an approval': [
      ({ approved, large }) => [[approved(large), null]],
      /no other operator approved it before, once/,
    ],
    'a movement that was approved with one micro-dollar less': [
      ({ made, large }) => [[made(large), { what: { ...large, amountMicros: large.amountMicros - 1 } }]],
      /and \{.*249999999.*\} was approved/,
    ],
    'an approval by the proposer': [
      ({ approved, large }) => [
        [approved(large), { by: 'operator:alice' }, { actor: { kind: 'operator', name: 'alice' } }],
      ],
      /operator:alice answers what operator:alice proposed/,
    ],
    'an approval in the name of another': [
      ({ approved, large }) => [[approved(large), {}, { actor: { kind: 'operator', name: 'alice' } }]],
      /it says stf_golden_bob, and was caused by another/,
    ],
    'an approval by a customer': [
      ({ approved, large }) => [
        [
          approved(large),
          {},
          { actor: { kind: 'session', subjectId: 'acc_golden_buyer', sessionId: 'ses_x', method: 'link' } },
        ],
      ],
      /was caused by another person or by a program/,
    ],
    'an approval of what was over': [
      ({ made, large }) => [[made(large), { expiresAt: '2026-07-21T00:00:00.000Z' }]],
      /proposal prp_\w+ was over/,
    ],
    'an approval of what was withdrawn': [
      ({ closed, withdrawn }) => [
        [closed(withdrawn), { by: 'operator:carol' }, { actor: { kind: 'operator', name: 'carol' } }],
      ],
      /operator:carol withdraws what operator:alice proposed/,
    ],
    'a limit below that of the approval, without a change of the limit': [
      ({ first }) => [[first('FourEyesSet'), null]],
      /^$/,
    ],
    'a limit that is raised alone': [
      ({ last }) => [[last('ProposalApproved'), null]],
      /it allows more than \$100\.00, without an approval/,
    ],
    'a limit that holds later than a minute after': [
      ({ first }) => [[first('FourEyesSet'), { from: '2027-06-01T00:00:00.000Z' }]],
      /which is not a minute after it was recorded/,
    ],
    'lines of a statement that one operator posts alone, above the limit': [
      ({ largeLine }) => [[largeLine, { proposalId: null }]],
      /the run \S+ posts \$150\.00, above the \$100\.00 that one operator may move alone/,
    ],
    'a line with another amount than the approved one': [
      ({ largeLine }) => [[largeLine, { payoutMicros: 151_000_000 }]],
      /no other operator approved it in prp_/,
    ],
    'a movement by the service itself, which no dispute explains': [
      ({ made, approved, recorded, large }) => [
        [made(large), null],
        [approved(large), null],
        [recorded(large), {}, { actor: { kind: 'system', name: 'disputes' } }],
      ],
      /without a proposal/,
    ],
    'a movement that says it is older than the limit, behind a seal that is not': [
      ({ made, approved, recorded, large }) => [
        [made(large), { sealedAt: '2027-06-01T00:00:00.000Z' }, {}, 'seal'],
        [approved(large), null],
        [recorded(large), {}, { recordedAt: '2026-11-20T00:00:00.000Z' }],
      ],
      /without a proposal/,
    ],
  }

type Log = {
  readonly first: (type: string) => StoredEvent
  readonly last: (type: string) => StoredEvent
  readonly made: (movement: ManualMovement) => StoredEvent
  readonly approved: (movement: ManualMovement) => StoredEvent
  readonly closed: (movement: ManualMovement) => StoredEvent
  readonly recorded: (movement: ManualMovement) => StoredEvent
  readonly largeLine: StoredEvent
  readonly large: ManualMovement
  readonly withdrawn: ManualMovement
}

const logOf = (events: readonly StoredEvent[]): Log => {
  const dataOf = ({ data }: StoredEvent): Facts => JSON.parse(data)
  const about = (type: string) => (movement: ManualMovement) =>
    events.find((event) => event.type === type && dataOf(event).proposalId === proposalIdOf(movement))!
  const proposed = (reference: string): ManualMovement =>
    dataOf(
      events.find((event) => event.type === 'ProposalMade' && dataOf(event).what.reference === reference)!,
    ).what
  return {
    first: (type) => events.find((event) => event.type === type)!,
    last: (type) => events.findLast((event) => event.type === type)!,
    made: about('ProposalMade'),
    approved: about('ProposalApproved'),
    closed: about('ProposalClosed'),
    recorded: ({ reference }) =>
      events.find(
        (event) => event.type === 'ManualMovementRecorded' && dataOf(event).reference === reference,
      )!,
    largeLine: events.find(({ type }) => type === 'StatementLineBooked')!,
    large: proposed('large'),
    withdrawn: proposed('withdrawn'),
  }
}

test('the invariants report large movements without a second approver', async () => {
  const events = await everyKind()
  assert.deepEqual(violationsOf(events), [])
  const found = logOf(events)
  for (const [what, [changes, finding]] of Object.entries(cases)) {
    const changed = new Map(changes(found).map(([event, ...change]) => [event.position, change]))
    const said = violationsOf(
      events.flatMap((event) => {
        const [data, metadata = {}, become] = changed.get(event.position) ?? [{}]
        if (data === null) return []
        return {
          ...event,
          ...(become === 'seal' && { stream: sealStream, type: 'LogSealed' }),
          data: JSON.stringify({ ...JSON.parse(event.data), ...data }),
          metadata: JSON.stringify({ ...JSON.parse(event.metadata), ...metadata }),
        }
      }),
    )
    if (finding.source === '^$') assert.deepEqual(said, [], what)
    else
      assert.ok(
        said.some((text) => finding.test(text)),
        `${what}\n${said.join('\n')}`,
      )
  }
})

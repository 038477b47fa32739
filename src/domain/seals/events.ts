import type { Fold } from '../../kernel/decider.ts'
import { defineEvent, type EventOf } from '../../kernel/event.ts'
import { anyId, hex, integer, orAbsent, orNull, pastTime, text, time } from '../../kernel/event-fields.ts'

/** The `seal` stream (docs/seals.md). Digests, public keys and signatures are lower-case hex. */
const stream = 'seal'

export const logSealed = defineEvent('LogSealed', {
  stream,
  means: 'The events so far were these, byte for byte (docs/seals.md).',
  fields: {
    throughOrdinal: integer(
      'events',
      'above 0',
      'how many events of the log it covers: all of ordinal 1 to this one',
    ),
    throughEventId: anyId('the last of them'),
    digest: hex(32, 'the running digest after it'),
    sealedAt: pastTime('when'),
    publicKey: hex(32, 'Ed25519'),
    checkedEvents: orAbsent(
      integer(
        'events',
        '0 or more',
        'how many of the events since the seal before it the sealing process had checked itself against invariants and signatures, counted in its memory',
      ),
    ),
    signature: hex(64, 'over the statement of docs/seals.md'),
  },
})
export type LogSealed = EventOf<typeof logSealed>

export const sealKeyRotated = defineEvent('SealKeyRotated', {
  stream,
  means: 'From here on another key signs. The key before it vouches for it.',
  fields: {
    sealedOrdinal: integer(
      'events',
      '0 or more',
      'what the last seal before it covers, which ties it to this log: 0 before the first',
    ),
    sealedDigest: hex(32, 'of that seal; that of an empty log before the first'),
    previousPublicKey: hex(32, 'the key before'),
    publicKey: hex(32, 'the key from here on'),
    rotatedAt: pastTime('when'),
    signature: hex(64, 'over the statement of docs/seals.md, by the previous key'),
  },
})
export type SealKeyRotated = EventOf<typeof sealKeyRotated>

export const sealEventDefinitions = [logSealed, sealKeyRotated] as const
export type SealEvent = EventOf<(typeof sealEventDefinitions)[number]>

/** The keys of the processes that write to the log (docs/seals.md, "Who wrote it"). */
export const processKeyIntroduced = defineEvent('ProcessKeyIntroduced', {
  stream: 'process-key-{publicKey}',
  means:
    'A process signs what it appends with this key from here on. It stands in the first batch that the key signs.',
  fields: {
    publicKey: hex(32, 'Ed25519; its secret is in the memory of that process alone'),
    logId: anyId('the log that it signs for: in a copy of the log the key signs nothing'),
    process: text('which process it is, e.g. `server 4711 on host-1`'),
    introducedAt: pastTime('when'),
    endsAt: time('it signs nothing that is decided later'),
    previousPublicKey: orNull(hex(32, 'the key that the same process signed with before; null for none')),
    previousBatches: integer(
      'batches',
      '0 or more',
      'how many batches that key signed; 0 without one, or when an answer was lost and nobody knows',
    ),
    sealPublicKey: hex(32, 'the key that seals the log then'),
    signature: hex(64, 'over the statement of docs/seals.md, by the key that seals'),
  },
})
export type ProcessKeyIntroduced = EventOf<typeof processKeyIntroduced>

/** The stream `signing`. */
export const batchSigningStopped = defineEvent('BatchSigningStopped', {
  stream: 'signing',
  means:
    'From here on processes append without signing, until the next key is introduced. Who holds the key that seals said so.',
  fields: {
    number: integer('stops', 'above 0', 'which one of this log it is'),
    process: text('which process stopped it'),
    stoppedAt: pastTime('when'),
    sealPublicKey: hex(32, 'the key that seals the log then'),
    signature: hex(64, 'over the statement of docs/seals.md, by the key that seals'),
  },
})
export type BatchSigningStopped = EventOf<typeof batchSigningStopped>

export const signingEventDefinitions = [processKeyIntroduced, batchSigningStopped] as const

/** `breach-{event id}`: an operator's decision about an event that violates an invariant. */
export const lawBreachDecided = defineEvent('LawBreachDecided', {
  stream: 'breach-{eventId}',
  means:
    'An operator knows that this event breaks this law, and says why it stands. Sealing goes on; a verification still finds it.',
  fields: {
    eventId: anyId('the event'),
    rule: text('the law, as `ledger breaches` names it'),
    reason: text('why it stands'),
  },
})
export type LawBreachDecided = EventOf<typeof lawBreachDecided>

export const violationEventDefinitions = [lawBreachDecided] as const
export type ViolationEvent = EventOf<(typeof violationEventDefinitions)[number]>

/** The last seal and the current key. */
export type SealState = {
  /** Null before the first seal. */
  readonly last: LogSealed['data'] | null
  /** The current key: that of the last seal or rotation. Null before both. */
  readonly publicKey: string | null
}

const evolve: Fold<SealState, SealEvent>['evolve'] = (state, event) => {
  switch (event.type) {
    case 'LogSealed':
      return { last: event.data, publicKey: event.data.publicKey }
    case 'SealKeyRotated':
      return { ...state, publicKey: event.data.publicKey }
    default: {
      const unknown: never = event
      throw new Error(`unknown seal event ${JSON.stringify(unknown)}`)
    }
  }
}

export const sealFold: Fold<SealState, SealEvent> = {
  name: 'seal',
  version: 1,
  initial: { last: null, publicKey: null },
  evolve,
  snapshot: {
    toText: (state) => JSON.stringify(state),
    fromText: (text) => JSON.parse(text) as SealState,
    entries: () => 1,
  },
}

/** The invariants of one event whose violation was acknowledged. */
export type AcknowledgedInvariants = readonly string[]

export const violationFold: Fold<AcknowledgedInvariants, ViolationEvent> = {
  name: 'breach',
  version: 1,
  initial: [],
  evolve: (state, { data }) => [...state, data.rule],
}

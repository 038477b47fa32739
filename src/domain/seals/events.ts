import type { Fold } from '../../kernel/decider.ts'
import { defineEvent, type EventOf } from '../../kernel/event.ts'
import { anyId, hex, integer, orAbsent, orNull, pastTime, text, time } from '../../kernel/event-fields.ts'

/** The `seal` stream (docs/finance/seals.md). Digests, public keys and signatures are lower-case hex. */
const stream = 'seal'

export const logSealed = defineEvent('LogSealed', {
  stream,
  means: 'A signed digest of all events so far, byte for byte (docs/finance/seals.md).',
  fields: {
    throughOrdinal: integer(
      'events',
      'above 0',
      'the last covered ordinal: it covers all events from ordinal 1 to this one',
    ),
    throughEventId: anyId('the last of these events'),
    digest: hex(32, 'the running digest after it'),
    sealedAt: pastTime('when'),
    publicKey: hex(32, 'Ed25519'),
    checkedEvents: orAbsent(
      integer(
        'events',
        '0 or more',
        'how many events since the previous seal the sealing process itself had checked against invariants and signatures, by a count in its memory',
      ),
    ),
    signature: hex(64, 'over the statement of docs/finance/seals.md'),
  },
})
export type LogSealed = EventOf<typeof logSealed>

export const sealKeyRotated = defineEvent('SealKeyRotated', {
  stream,
  means: 'Another key signs from now on. The previous key signed this event.',
  fields: {
    sealedOrdinal: integer(
      'events',
      '0 or more',
      'the last covered ordinal of the previous seal, which binds the event to this log: 0 before the first',
    ),
    sealedDigest: hex(32, 'of that seal; the digest of an empty log before the first'),
    previousPublicKey: hex(32, 'the previous key'),
    publicKey: hex(32, 'the new key'),
    rotatedAt: pastTime('when'),
    signature: hex(64, 'over the statement of docs/finance/seals.md, by the previous key'),
  },
})
export type SealKeyRotated = EventOf<typeof sealKeyRotated>

export const sealEventDefinitions = [logSealed, sealKeyRotated] as const
export type SealEvent = EventOf<(typeof sealEventDefinitions)[number]>

/** The keys of the processes that write to the log (docs/finance/seals.md, "Who wrote it"). */
export const processKeyIntroduced = defineEvent('ProcessKeyIntroduced', {
  stream: 'process-key-{publicKey}',
  means: 'A process signs its appends with this key. The event is in the first batch that the key signs.',
  fields: {
    publicKey: hex(32, 'Ed25519; only the memory of that process has its secret'),
    logId: anyId('the log of its signatures: in a copy of the log the key signs nothing'),
    process: text('the process, e.g. `server 4711 on host-1`'),
    introducedAt: pastTime('when'),
    endsAt: time('its end: it signs no later decision'),
    previousPublicKey: orNull(hex(32, 'the previous key of the same process; null for none')),
    previousBatches: integer(
      'batches',
      '0 or more',
      'the number of batches signed by that key; 0 without one, or after a lost answer, when it is unknown',
    ),
    sealPublicKey: hex(32, 'the seal key at that time'),
    signature: hex(64, 'over the statement of docs/finance/seals.md, by the seal key'),
  },
})
export type ProcessKeyIntroduced = EventOf<typeof processKeyIntroduced>

/** The stream `signing`. */
export const batchSigningStopped = defineEvent('BatchSigningStopped', {
  stream: 'signing',
  means:
    'Processes append without signatures until the next key is introduced. The seal key signed this event.',
  fields: {
    number: integer('stops', 'above 0', 'its number in this log'),
    process: text('the process that stopped signing'),
    stoppedAt: pastTime('when'),
    sealPublicKey: hex(32, 'the seal key at that time'),
    signature: hex(64, 'over the statement of docs/finance/seals.md, by the seal key'),
  },
})
export type BatchSigningStopped = EventOf<typeof batchSigningStopped>

export const signingEventDefinitions = [processKeyIntroduced, batchSigningStopped] as const

/** `breach-{event id}`: an operator's decision about an event that violates an invariant. */
export const lawBreachDecided = defineEvent('LawBreachDecided', {
  stream: 'breach-{eventId}',
  means:
    'An operator acknowledged, with a reason, that an event violates an invariant. Sealing continues; a verification still reports it.',
  fields: {
    eventId: anyId('the event'),
    rule: text('the invariant, as named by `ledger breaches`'),
    reason: text('the reason'),
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

import { type EventOf, fact } from '../../platform/eventstore/fact.ts'
import { anyId, hex, pastTime, text, whole } from '../../terms/fields.ts'

/** The `seal` stream (docs/seals.md). Digests, public keys and signatures are lower-case hex. */
const stream = 'seal'

export const logSealed = fact('LogSealed', {
  stream,
  means: 'The events so far were these, byte for byte (docs/seals.md).',
  fields: {
    throughOrdinal: whole(
      'events',
      'above 0',
      'how many events of the log it covers: all of ordinal 1 to this one',
    ),
    throughEventId: anyId('the last of them'),
    digest: hex(32, 'the running digest after it'),
    sealedAt: pastTime('when'),
    publicKey: hex(32, 'Ed25519'),
    signature: hex(64, 'over the statement of docs/seals.md'),
  },
})
export type LogSealed = EventOf<typeof logSealed>

export const sealKeyRotated = fact('SealKeyRotated', {
  stream,
  means: 'From here on another key signs. The key before it vouches for it.',
  fields: {
    sealedOrdinal: whole(
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

export const sealFacts = [logSealed, sealKeyRotated] as const
export type SealEvent = EventOf<(typeof sealFacts)[number]>

/** `breach-{event id}`: what was decided about an event that breaks a law. */
export const lawBreachDecided = fact('LawBreachDecided', {
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

export const breachFacts = [lawBreachDecided] as const
export type BreachEvent = EventOf<(typeof breachFacts)[number]>

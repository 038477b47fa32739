import type { DomainEvent } from '../../platform/eventstore/event.ts'

/**
 * The `seal` stream (docs/seals.md). Digests, public keys and signatures are lower-case hex; times
 * are ISO 8601 UTC.
 */
export type LogSealed = DomainEvent<
  'LogSealed',
  {
    /** How many events of the log it covers: all of ordinal 1 to this one. */
    readonly throughOrdinal: number
    /** The last of them. */
    readonly throughEventId: string
    /** The running digest after it, 32 bytes. */
    readonly digest: string
    readonly sealedAt: string
    /** Ed25519, 32 bytes. */
    readonly publicKey: string
    /** Over `sealStatement` (seal-key.ts), 64 bytes. */
    readonly signature: string
  }
>

/** From here on another key signs. The key before it vouches for it. */
export type SealKeyRotated = DomainEvent<
  'SealKeyRotated',
  {
    /** The last seal before it, which ties it to this log: 0 and the digest of an empty log before the first. */
    readonly sealedOrdinal: number
    readonly sealedDigest: string
    readonly previousPublicKey: string
    readonly publicKey: string
    readonly rotatedAt: string
    /** Over `rotationStatement`, by the previous key. */
    readonly signature: string
  }
>

export type SealEvent = LogSealed | SealKeyRotated

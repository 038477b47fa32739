import type { DomainEvent } from '../../platform/eventstore/event.ts'
import type { Scope } from '../../terms/scope.ts'

/** An `account-{id}` stream. The e-mail and the key's hash stand in the vault, never here. */
export type AccountCreated = DomainEvent<
  'AccountCreated',
  { readonly accountId: string; readonly reseller: boolean }
>
export type AccountBlocked = DomainEvent<'AccountBlocked', { readonly reason: string }>
export type AccountUnblocked = DomainEvent<'AccountUnblocked', Record<string, never>>
export type KeyIssued = DomainEvent<
  'KeyIssued',
  {
    readonly keyId: string
    readonly scopes: readonly Scope[]
    /** Whole cents in any 24 hours; null for no cap. */
    readonly dailyCapCents: number | null
    /** The first 8 characters of the key, for display. */
    readonly displayPrefix: string
    /** What the operator calls it; it names no person. Absent on a key without a name. */
    readonly name?: string
    /** ISO 8601 UTC; absent on a key that works until it is revoked. */
    readonly expiresAt?: string
    /** The only addresses and networks that it works from (`203.0.113.0/24`); absent on a key that works from anywhere. */
    readonly networks?: readonly string[]
    /** The key that it takes the place of. */
    readonly rolledFrom?: string
    /** The first key of those that it was rolled from: what they spend in 24 hours counts together. */
    readonly capKeyId?: string
  }
>
/** A key that was rolled ends by itself at this time, ISO 8601 UTC. */
export type KeyExpirySet = DomainEvent<'KeyExpirySet', { readonly keyId: string; readonly expiresAt: string }>
export type KeyCapped = DomainEvent<
  'KeyCapped',
  {
    readonly keyId: string
    readonly dailyCapCents: number | null
    /** As in `KeyIssued`. */
    readonly capKeyId?: string
  }
>
export type KeyRevoked = DomainEvent<'KeyRevoked', { readonly keyId: string }>

export type AccountEvent =
  | AccountCreated
  | AccountBlocked
  | AccountUnblocked
  | KeyIssued
  | KeyCapped
  | KeyExpirySet
  | KeyRevoked

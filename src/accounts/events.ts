import type { DomainEvent } from '../eventstore/event.ts'
import type { Scope } from '../terms/scope.ts'

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
  }
>
export type KeyCapped = DomainEvent<
  'KeyCapped',
  { readonly keyId: string; readonly dailyCapCents: number | null }
>
export type KeyRevoked = DomainEvent<'KeyRevoked', { readonly keyId: string }>

export type AccountEvent =
  | AccountCreated
  | AccountBlocked
  | AccountUnblocked
  | KeyIssued
  | KeyCapped
  | KeyRevoked

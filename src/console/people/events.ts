import type { DomainEvent, SignInMethod } from '../../platform/eventstore/event.ts'

/** What a member of the staff may be granted; customers and resellers have their pages by their account. */
export const staffRoles = ['finance', 'operator'] as const
export type StaffRole = (typeof staffRoles)[number]

/**
 * A `console-{acc_… or stf_…}` stream: what one person may do in the console, and what was done about signing in. Addresses,
 * secrets and keys of passkeys stand in the vault, never here.
 */
export type StaffRoleGranted = DomainEvent<
  'StaffRoleGranted',
  { readonly staffId: string; readonly role: StaffRole }
>
export type StaffRoleRevoked = DomainEvent<
  'StaffRoleRevoked',
  { readonly staffId: string; readonly role: StaffRole }
>
export type SignInLinkMade = DomainEvent<
  'SignInLinkMade',
  {
    readonly subjectId: string
    /** ISO 8601 UTC. */
    readonly expiresAt: string
  }
>
export type SignedIn = DomainEvent<
  'SignedIn',
  { readonly subjectId: string; readonly sessionId: string; readonly method: SignInMethod }
>
export type SessionEnded = DomainEvent<
  'SessionEnded',
  { readonly subjectId: string; readonly sessionId: string; readonly reason: 'signed_out' | 'revoked' }
>
export type PasskeyAdded = DomainEvent<
  'PasskeyAdded',
  { readonly subjectId: string; readonly passkeyId: string }
>
export type PasskeyRemoved = DomainEvent<
  'PasskeyRemoved',
  { readonly subjectId: string; readonly passkeyId: string }
>
/** A person showed again who they are, for one act. */
export type ActConfirmed = DomainEvent<
  'ActConfirmed',
  {
    readonly subjectId: string
    readonly sessionId: string
    /** The path of the page whose act it is, e.g. `/console/keys/new`. */
    readonly act: string
    readonly method: 'passkey' | 'code'
  }
>
/** A member of the staff begins to see the pages of an account as it sees them; nothing can be changed there. */
export type AccountViewed = DomainEvent<
  'AccountViewed',
  {
    readonly staffId: string
    readonly sessionId: string
    readonly accountId: string
    /** As it was typed: it names no person. */
    readonly reason: string
  }
>
/** A member of the staff asked that what a work queue has given up is tried again. */
export type WorkRetryAsked = DomainEvent<
  'WorkRetryAsked',
  {
    readonly staffId: string
    readonly sessionId: string
    /** The name of the queue. */
    readonly queue: string
    /** An item by its key; null: everything that was given up. */
    readonly item: string | null
  }
>

export type PersonEvent =
  | StaffRoleGranted
  | StaffRoleRevoked
  | SignInLinkMade
  | SignedIn
  | SessionEnded
  | PasskeyAdded
  | PasskeyRemoved
  | ActConfirmed
  | AccountViewed
  | WorkRetryAsked

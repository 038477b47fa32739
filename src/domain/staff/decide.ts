import { type Decided, type Decision, decided, refused } from '../../kernel/decider.ts'
import type { SignInMethod } from '../../kernel/event.ts'
import type { AccountViewed, ActConfirmed, PersonEvent, SessionEnded, WorkRetryAsked } from './events.ts'
import type { PersonState } from './fold.ts'
import { isStaff } from './lifetimes.ts'
import type { StaffRole } from './roles.ts'

/** The most passkeys of one person at a time. */
export const maxPasskeys = 10

export type PersonRefusal =
  | { readonly code: 'too_many_passkeys'; readonly limit: number }
  | { readonly code: 'last_passkey' }
  | { readonly code: 'no_role' }
  | { readonly code: 'passkey_needed' }
  /** The member's e-mail in the vault is not the one that events commit to. */
  | { readonly code: 'email_changed' }

export type PersonDecision = Decision<PersonEvent, PersonRefusal>

/** A role that the member already has is not granted again. Refusal: `email_changed`. */
export const decideGrant = (
  state: PersonState,
  {
    emailCommitment,
    ...grant
  }: {
    readonly staffId: string
    readonly role: StaffRole
    /** Commits to the e-mail by which the member was found. */
    readonly emailCommitment: string
  },
): PersonDecision => {
  if (state.emailCommitment !== null && state.emailCommitment !== emailCommitment)
    return refused({ code: 'email_changed' })
  if (state.roles.has(grant.role)) return decided()
  return decided({ type: 'StaffRoleGranted', data: { ...grant, emailCommitment } })
}

export const decideRoleRevocation = (
  state: PersonState,
  grant: { readonly staffId: string; readonly role: StaffRole },
): PersonDecision =>
  state.roles.has(grant.role) ? decided({ type: 'StaffRoleRevoked', data: grant }) : decided()

/** A member of the staff without a role gets no link. Refusal: `no_role`. */
export const decideLink = (
  state: PersonState,
  link: { readonly subjectId: string; readonly expiresAt: string },
): PersonDecision =>
  isStaff(link.subjectId) && state.roles.isEmpty()
    ? refused({ code: 'no_role' })
    : decided({ type: 'SignInLinkMade', data: link })

/**
 * Accounts can sign in with any method. Staff needs a role and a passkey: a link of the command line opens only the
 * page that registers a passkey. Refusals: `no_role`, `passkey_needed`.
 */
export const decideSignIn = (
  state: PersonState,
  signIn: { readonly subjectId: string; readonly sessionId: string; readonly method: SignInMethod },
): PersonDecision => {
  if (isStaff(signIn.subjectId)) {
    if (state.roles.isEmpty()) return refused({ code: 'no_role' })
    if (signIn.method === 'link') return refused({ code: 'passkey_needed' })
  }
  return decided({ type: 'SignedIn', data: signIn })
}

export const decideSessionEnd = (_state: PersonState, end: SessionEnded['data']): PersonDecision =>
  decided({ type: 'SessionEnded', data: end })

/** Refusal: `too_many_passkeys`. */
export const decidePasskey = (
  state: PersonState,
  passkey: {
    readonly subjectId: string
    readonly passkeyId: string
    /** Commits to its row in the vault. */
    readonly commitment: string
  },
): PersonDecision => {
  if (state.passkeys.has(passkey.passkeyId)) return decided()
  return state.passkeys.size >= maxPasskeys
    ? refused({ code: 'too_many_passkeys', limit: maxPasskeys })
    : decided({ type: 'PasskeyAdded', data: passkey })
}

/**
 * The last passkey of a member of the staff cannot be removed, because then only the command line could give access.
 * Refusal: `last_passkey`.
 */
export const decidePasskeyRemoval = (
  state: PersonState,
  passkey: { readonly subjectId: string; readonly passkeyId: string },
): PersonDecision => {
  if (!state.passkeys.has(passkey.passkeyId)) return decided()
  return isStaff(passkey.subjectId) && state.passkeys.size === 1
    ? refused({ code: 'last_passkey' })
    : decided({ type: 'PasskeyRemoved', data: passkey })
}

export const decideConfirmation = (_state: PersonState, confirmed: ActConfirmed['data']): PersonDecision =>
  decided({ type: 'ActConfirmed', data: confirmed })

/** Only operators may view the pages of an account. Refusal: `no_role`. */
export const decideView = (state: PersonState, viewed: AccountViewed['data']): PersonDecision =>
  state.roles.has('operator')
    ? decided({ type: 'AccountViewed', data: viewed })
    : refused({ code: 'no_role' })

/** Only operators may retry abandoned work. Refusal: `no_role`. */
export const decideWorkRetry = (state: PersonState, retryRequest: WorkRetryAsked['data']): PersonDecision =>
  state.roles.has('operator')
    ? decided({ type: 'WorkRetryAsked', data: retryRequest })
    : refused({ code: 'no_role' })

/**
 * Adopts commitments that an upgrade found in the vault and that no event has yet. Existing commitments do not change.
 */
export const decidePersonAdoption = (
  state: PersonState,
  vaultPerson: {
    readonly subjectId: string
    readonly emailCommitment: string | null
    readonly passkeys: readonly { readonly passkeyId: string; readonly commitment: string }[]
  },
): Decided<PersonEvent> => {
  const passkeys = vaultPerson.passkeys.filter(({ passkeyId }) => state.passkeys.get(passkeyId) === null)
  // The e-mail of a person without a role and without passkeys is not adopted.
  const isKnownPerson = !state.roles.isEmpty() || !state.passkeys.isEmpty()
  const emailCommitment = isKnownPerson && state.emailCommitment === null ? vaultPerson.emailCommitment : null
  if (emailCommitment === null && passkeys.length === 0) return decided()
  const data = { subjectId: vaultPerson.subjectId, emailCommitment, passkeys }
  return decided({ type: 'PersonCommitmentsAdopted', data })
}

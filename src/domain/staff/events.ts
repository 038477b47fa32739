import { defineEvent, type EventOf, signInMethods } from '../../kernel/event.ts'
import {
  adoptedCommitment,
  anyId,
  commitment,
  group,
  id,
  list,
  oneOf,
  orNull,
  text,
  time,
} from '../../kernel/event-fields.ts'
import { staffRoles } from './roles.ts'

/**
 * A `console-{acc_… or stf_…}` stream: what one person may do in the console, and how the person signed in.
 * Addresses, secrets and keys of passkeys are in the vault only.
 */
const stream = 'console-{person}'

const staffId = id('stf', 'the member of the staff')
const subjectId = anyId('an account, or a member of the staff')
const sessionId = anyId('the console session')
const passkeyId = anyId('the passkey')

export const staffRoleGranted = defineEvent('StaffRoleGranted', {
  stream,
  means: 'A member of the staff got a role.',
  fields: {
    staffId,
    role: oneOf(staffRoles, 'the role'),
    emailCommitment: commitment("the member's e-mail address"),
  },
})
export const staffRoleRevoked = defineEvent('StaffRoleRevoked', {
  stream,
  means: 'A member of the staff lost a role.',
  fields: { staffId, role: oneOf(staffRoles, 'the role') },
})
export const signInLinkMade = defineEvent('SignInLinkMade', {
  stream,
  means: 'A sign-in link was created.',
  fields: { subjectId, expiresAt: time('its end') },
})
export const signedIn = defineEvent('SignedIn', {
  stream,
  means: 'A person signed in.',
  fields: { subjectId, sessionId, method: oneOf(signInMethods, 'how') },
})
export const sessionEnded = defineEvent('SessionEnded', {
  stream,
  means: 'A session ended before its time.',
  fields: { subjectId, sessionId, reason: oneOf(['signed_out', 'revoked'], 'why') },
})
export const passkeyAdded = defineEvent('PasskeyAdded', {
  stream,
  means: 'A passkey was added.',
  fields: {
    subjectId,
    passkeyId,
    commitment: commitment('the public key of the passkey, and its credential id'),
  },
})
export const passkeyRemoved = defineEvent('PasskeyRemoved', {
  stream,
  means: 'A passkey was removed.',
  fields: { subjectId, passkeyId },
})
export const actConfirmed = defineEvent('ActConfirmed', {
  stream,
  means: 'A person confirmed their identity for one action.',
  fields: {
    subjectId,
    sessionId,
    act: text("the path of the action's page, e.g. `/console/keys/new`"),
    method: oneOf(['passkey', 'code'], 'how'),
  },
})
export const accountViewed = defineEvent('AccountViewed', {
  stream,
  means: 'A member of the staff opened the pages of an account in read-only mode.',
  fields: {
    staffId,
    sessionId,
    accountId: id('acc', 'whose pages'),
    reason: text('the typed text, which names no person'),
  },
})

export const workRetryAsked = defineEvent('WorkRetryAsked', {
  stream,
  means: 'A member of the staff requested a retry of abandoned items of a work queue.',
  fields: {
    staffId,
    sessionId,
    queue: text('the name of the queue'),
    item: orNull(text('an item by its key; null: all abandoned items')),
  },
})

export const personCommitmentsAdopted = defineEvent('PersonCommitmentsAdopted', {
  stream,
  means:
    'An upgrade commits to the vault data of an older release. It happens once, before any other event of the newer release.',
  fields: {
    subjectId,
    emailCommitment: orNull(
      adoptedCommitment("the member's e-mail address; null: it is not adopted, as that of an account"),
    ),
    passkeys: list(
      group({ passkeyId, commitment: adoptedCommitment('the public key of the passkey') }, 'a passkey'),
      'passkeys whose events have no commitment',
    ),
  },
})

export type StaffRoleGranted = EventOf<typeof staffRoleGranted>
export type StaffRoleRevoked = EventOf<typeof staffRoleRevoked>
export type SignInLinkMade = EventOf<typeof signInLinkMade>
export type SignedIn = EventOf<typeof signedIn>
export type SessionEnded = EventOf<typeof sessionEnded>
export type PasskeyAdded = EventOf<typeof passkeyAdded>
export type PasskeyRemoved = EventOf<typeof passkeyRemoved>
export type ActConfirmed = EventOf<typeof actConfirmed>
export type AccountViewed = EventOf<typeof accountViewed>
export type WorkRetryAsked = EventOf<typeof workRetryAsked>

export const personEventDefinitions = [
  staffRoleGranted,
  staffRoleRevoked,
  signInLinkMade,
  signedIn,
  sessionEnded,
  passkeyAdded,
  passkeyRemoved,
  actConfirmed,
  accountViewed,
  workRetryAsked,
  personCommitmentsAdopted,
] as const
export type PersonEvent = EventOf<(typeof personEventDefinitions)[number]>

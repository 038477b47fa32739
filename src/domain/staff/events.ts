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
const subjectId = anyId('who: an account, or a member of the staff')
const sessionId = anyId('the session in the console')
const passkeyId = anyId('the passkey')

export const staffRoleGranted = defineEvent('StaffRoleGranted', {
  stream,
  means: 'A member of the staff may do more.',
  fields: {
    staffId,
    role: oneOf(staffRoles, 'the role'),
    emailCommitment: commitment("the member's e-mail address"),
  },
})
export const staffRoleRevoked = defineEvent('StaffRoleRevoked', {
  stream,
  means: 'A member of the staff may do it no more.',
  fields: { staffId, role: oneOf(staffRoles, 'the role') },
})
export const signInLinkMade = defineEvent('SignInLinkMade', {
  stream,
  means: 'A link that signs in was made.',
  fields: { subjectId, expiresAt: time('it works until then') },
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
  means: 'A passkey signs in from here on.',
  fields: {
    subjectId,
    passkeyId,
    commitment: commitment('the public key of the passkey, and its credential id'),
  },
})
export const passkeyRemoved = defineEvent('PasskeyRemoved', {
  stream,
  means: 'A passkey signs in no more.',
  fields: { subjectId, passkeyId },
})
export const actConfirmed = defineEvent('ActConfirmed', {
  stream,
  means: 'A person showed again who they are, for one act.',
  fields: {
    subjectId,
    sessionId,
    act: text('the path of the page whose act it is, e.g. `/console/keys/new`'),
    method: oneOf(['passkey', 'code'], 'how'),
  },
})
export const accountViewed = defineEvent('AccountViewed', {
  stream,
  means:
    'A member of the staff begins to see the pages of an account as it sees them; nothing can be changed there.',
  fields: {
    staffId,
    sessionId,
    accountId: id('acc', 'whose pages'),
    reason: text('as it was typed: it names no person'),
  },
})

export const workRetryAsked = defineEvent('WorkRetryAsked', {
  stream,
  means: 'A member of the staff asked that what a work queue has given up is tried again.',
  fields: {
    staffId,
    sessionId,
    queue: text('the name of the queue'),
    item: orNull(text('an item by its key; null: everything that was given up')),
  },
})

export const personCommitmentsAdopted = defineEvent('PersonCommitmentsAdopted', {
  stream,
  means:
    'An upgrade commits to what an older release had put into the vault: it happens once, before anything else of the newer release.',
  fields: {
    subjectId,
    emailCommitment: orNull(
      adoptedCommitment("the member's e-mail address; null: it is not adopted, as that of an account"),
    ),
    passkeys: list(
      group({ passkeyId, commitment: adoptedCommitment('the public key of the passkey') }, 'a passkey'),
      'passkeys whose events commit to nothing',
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

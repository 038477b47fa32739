import { defineEvent, type EventOf } from '../../kernel/event.ts'
import {
  adoptedCommitment,
  cents,
  commitment,
  flag,
  group,
  id,
  list,
  oneOf,
  orAbsent,
  orNull,
  text,
  time,
} from '../../kernel/event-fields.ts'
import { scopes } from '../../kernel/scopes.ts'

/** An `account-{id}` stream. The e-mail and the hashes of keys are in the vault only. */
const stream = 'account-{account}'

const keyId = id('key', 'the key')
const dailyCapCents = orNull(cents('0 or more', 'what it may spend in any 24 hours; null for no cap'))
const capKeyId = orAbsent(
  id('key', 'the first key of those that it was rolled from: what they spend in 24 hours counts together'),
)

export const accountCreated = defineEvent('AccountCreated', {
  stream,
  means: 'The account exists from here on.',
  fields: {
    accountId: id('acc', 'the account'),
    reseller: flag('whether it sells to customers of its own: then it has a book of its own'),
    emailCommitment: commitment('the e-mail address'),
  },
})
export const accountBlocked = defineEvent('AccountBlocked', {
  stream,
  means: 'Its keys do nothing until it is unblocked.',
  fields: { reason: text('as the operator wrote it') },
})
export const accountUnblocked = defineEvent('AccountUnblocked', {
  stream,
  means: 'Its keys work again.',
  fields: {},
})
export const keyIssued = defineEvent('KeyIssued', {
  stream,
  means: 'An API key works from here on.',
  fields: {
    keyId,
    scopes: list(oneOf(scopes, 'one thing'), 'what it may do'),
    dailyCapCents,
    displayPrefix: text('the first 8 characters of the key, for display'),
    name: orAbsent(text('what the operator calls it; it names no person')),
    expiresAt: orAbsent(time('absent on a key that works until it is revoked')),
    networks: orAbsent(
      list(
        text('an address or network, `203.0.113.0/24`'),
        'the only ones that it works from; absent: from anywhere',
      ),
    ),
    rolledFrom: orAbsent(id('key', 'the key that it takes the place of')),
    capKeyId,
    commitment: commitment('the hash of the key'),
  },
})
export const keyExpirySet = defineEvent('KeyExpirySet', {
  stream,
  means: 'A key that was rolled ends by itself.',
  fields: { keyId, expiresAt: time('when') },
})
export const keyCapped = defineEvent('KeyCapped', {
  stream,
  means: 'A key has another cap, or none.',
  fields: { keyId, dailyCapCents, capKeyId },
})
export const keyRevoked = defineEvent('KeyRevoked', {
  stream,
  means: 'A key works no more.',
  fields: { keyId },
})

export const accountCommitmentsAdopted = defineEvent('AccountCommitmentsAdopted', {
  stream,
  means:
    'An upgrade commits to what an older release had put into the vault: it happens once, before anything else of the newer release.',
  fields: {
    accountId: id('acc', 'the account'),
    emailCommitment: orNull(adoptedCommitment('the e-mail address, which had none; null: it is not adopted')),
    keys: list(
      group({ keyId, commitment: adoptedCommitment('the hash of the key') }, 'a key'),
      'keys whose events commit to nothing',
    ),
  },
})

export type AccountCreated = EventOf<typeof accountCreated>
export type AccountBlocked = EventOf<typeof accountBlocked>
export type AccountUnblocked = EventOf<typeof accountUnblocked>
export type KeyIssued = EventOf<typeof keyIssued>
export type KeyExpirySet = EventOf<typeof keyExpirySet>
export type KeyCapped = EventOf<typeof keyCapped>
export type KeyRevoked = EventOf<typeof keyRevoked>
export type AccountCommitmentsAdopted = EventOf<typeof accountCommitmentsAdopted>

export const accountEventDefinitions = [
  accountCreated,
  accountBlocked,
  accountUnblocked,
  keyIssued,
  keyExpirySet,
  keyCapped,
  keyRevoked,
  accountCommitmentsAdopted,
] as const
export type AccountEvent = EventOf<(typeof accountEventDefinitions)[number]>

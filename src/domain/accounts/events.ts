import { defineEvent, type EventOf } from '../../kernel/event.ts'
import {
  adoptedCommitment,
  cents,
  commitment,
  flag,
  group,
  id,
  list,
  micros,
  oneOf,
  orAbsent,
  orNull,
  text,
  time,
} from '../../kernel/event-fields.ts'
import { capCoverages, scopes } from '../../kernel/scopes.ts'

/** An `account-{id}` stream. The e-mail and the hashes of keys are in the vault only. */
const stream = 'account-{account}'

const keyId = id('key', 'the key')
const dailyCapCents = orNull(cents('0 or more', 'the spending limit in any 24 hours; null for no cap'))
const capCovers = orAbsent(oneOf(capCoverages, 'what the cap limits; absent: orders, as before 0.2.0'))
const capKeyId = orAbsent(
  id(
    'key',
    'the first key of its chain of rotations: the spending of all keys of the chain in 24 hours counts together',
  ),
)

export const accountCreated = defineEvent('AccountCreated', {
  stream,
  means: 'An account was created.',
  fields: {
    accountId: id('acc', 'the account'),
    reseller: flag('whether it is a reseller with its own customers and its own book'),
    emailCommitment: commitment('the e-mail address'),
  },
})
export const accountBlocked = defineEvent('AccountBlocked', {
  stream,
  means: 'Its keys are disabled until it is unblocked.',
  fields: { reason: text("the operator's text") },
})
export const accountUnblocked = defineEvent('AccountUnblocked', {
  stream,
  means: 'Its keys work again.',
  fields: {},
})
export const keyIssued = defineEvent('KeyIssued', {
  stream,
  means: 'An API key was issued.',
  fields: {
    keyId,
    scopes: list(oneOf(scopes, 'one thing'), 'its permissions'),
    dailyCapCents,
    capCovers,
    displayPrefix: text('the first 8 characters of the key, for display'),
    name: orAbsent(text('its name, which names no person')),
    expiresAt: orAbsent(time('absent on a key that works until it is revoked')),
    networks: orAbsent(
      list(
        text('an address or network, `203.0.113.0/24`'),
        'the networks from which the key works; absent: all',
      ),
    ),
    rolledFrom: orAbsent(id('key', 'the key that it replaces')),
    capKeyId,
    commitment: commitment('the hash of the key'),
  },
})
export const keyExpirySet = defineEvent('KeyExpirySet', {
  stream,
  means: 'A rotated key ends automatically.',
  fields: { keyId, expiresAt: time('when') },
})
export const keyCapped = defineEvent('KeyCapped', {
  stream,
  means: 'The cap of a key was changed or removed.',
  fields: { keyId, dailyCapCents, capCovers, capKeyId },
})
export const keyRevoked = defineEvent('KeyRevoked', {
  stream,
  means: 'A key was revoked.',
  fields: { keyId },
})

export const lowBalanceThresholdSet = defineEvent('LowBalanceThresholdSet', {
  stream,
  means: 'The account chose the available balance below which it is notified.',
  fields: {
    thresholdMicros: orNull(
      micros('above 0', 'each fall of the available balance below it is notified once; null: none is'),
    ),
  },
})

export const accountCommitmentsAdopted = defineEvent('AccountCommitmentsAdopted', {
  stream,
  means:
    'An upgrade commits to the vault data of an older release. It happens once, before any other event of the newer release.',
  fields: {
    accountId: id('acc', 'the account'),
    emailCommitment: orNull(
      adoptedCommitment('the e-mail address, which had no commitment; null: it is not adopted'),
    ),
    keys: list(
      group({ keyId, commitment: adoptedCommitment('the hash of the key') }, 'a key'),
      'keys whose events have no commitment',
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
export type LowBalanceThresholdSet = EventOf<typeof lowBalanceThresholdSet>
export type AccountCommitmentsAdopted = EventOf<typeof accountCommitmentsAdopted>

export const accountEventDefinitions = [
  accountCreated,
  accountBlocked,
  accountUnblocked,
  keyIssued,
  keyExpirySet,
  keyCapped,
  keyRevoked,
  lowBalanceThresholdSet,
  accountCommitmentsAdopted,
] as const
export type AccountEvent = EventOf<(typeof accountEventDefinitions)[number]>

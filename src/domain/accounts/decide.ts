import type { Map as ImmutableMap } from 'immutable'
import { isoTime } from '../../kernel/clock.ts'
import { type Decided, type Decision, decided, refused } from '../../kernel/decider.ts'
import type { AccountId, KeyId } from '../../kernel/ids.ts'
import { centsToMicros } from '../../kernel/money.ts'
import type { CapCovers, KeyCap, KeyScope as Scope } from '../../kernel/scopes.ts'
import type { AccountEvent, KeyIssued } from './events.ts'
import { type AccountState, capOf, isKeyActive, type KeyState } from './fold.ts'

export type AccountDecision = Decision<AccountEvent, AccountRefusal>

export type AccountRefusal =
  | { readonly code: 'unknown_account' }
  | { readonly code: 'account_exists' }
  | { readonly code: 'unknown_key' }
  | { readonly code: 'key_revoked' }
  | { readonly code: 'key_expired' }
  | { readonly code: 'expiry_passed' }
  | { readonly code: 'too_many_keys'; readonly limit: number }
  /** The cap covers orders, and the key cannot order. */
  | { readonly code: 'cap_covers_nothing' }

/** The most active keys of an account, and finance tokens. Revoked and expired keys do not count. */
export const maxActiveKeys = 100

const unknownAccount = refused({ code: 'unknown_account' as const })

/** Refusal: `account_exists`. */
export const decideCreation = (
  state: AccountState,
  account: {
    readonly accountId: AccountId
    readonly reseller: boolean
    /** Commits to its e-mail in the vault. */
    readonly emailCommitment: string
  },
): AccountDecision =>
  state ? refused({ code: 'account_exists' }) : decided({ type: 'AccountCreated', data: { ...account } })

/** The reason of a block by a dispute. @param reference of its movement */
export const disputeBlock = (reference: string): string => `chargeback ${reference}`
export const isDisputeBlock = (reason: string): boolean => reason.startsWith(disputeBlock(''))

/** Blocks an account. A blocked account keeps the reason of its first block. Refusal: `unknown_account`. */
export const decideBlock = (
  state: AccountState,
  { reason }: { readonly reason: string },
): AccountDecision => {
  if (!state) return unknownAccount
  return state.blocked ? decided() : decided({ type: 'AccountBlocked', data: { reason } })
}

/** Refusal: `unknown_account`. */
export const decideUnblock = (state: AccountState): AccountDecision => {
  if (!state) return unknownAccount
  return state.blocked ? decided({ type: 'AccountUnblocked', data: {} }) : decided()
}

/**
 * Sets or removes (null) the available balance below which the account is notified. Refusal: `unknown_account`.
 * @throws RangeError for an invalid threshold
 */
export const decideLowBalance = (state: AccountState, thresholdCents: number | null): AccountDecision => {
  if (thresholdCents !== null && !(thresholdCents > 0))
    throw new RangeError(`${thresholdCents} is no threshold in cents`)
  if (!state) return unknownAccount
  const thresholdMicros = thresholdCents === null ? null : centsToMicros(thresholdCents)
  return state.lowBalanceMicros === thresholdMicros
    ? decided()
    : decided({ type: 'LowBalanceThresholdSet', data: { thresholdMicros } })
}

/** @throws RangeError for an invalid cap */
const capFields = (cap: KeyCap | null): Pick<KeyIssued['data'], 'dailyCapCents' | 'capCovers'> => {
  if (cap === null) return { dailyCapCents: null }
  if (!Number.isSafeInteger(cap.cents) || cap.cents < 0)
    throw new RangeError(`${cap.cents} is no cap in cents`)
  return { dailyCapCents: cap.cents, ...(cap.covers !== 'orders' && { capCovers: cap.covers }) }
}

export type KeyIssue = {
  readonly keyId: KeyId
  readonly scopes: readonly Scope[]
  readonly cap: KeyCap | null
  readonly displayPrefix: string
  readonly name: string | null
  /** Milliseconds since the epoch; null for a key that works until it is revoked. */
  readonly expiresAtMs: number | null
  /** The networks that it works from; null for any. */
  readonly networks: readonly string[] | null
  /** Commits to its hash in the vault. */
  readonly commitment: string
}

/** @throws RangeError for an invalid cap */
const issuedData = ({ name, cap, expiresAtMs, networks, ...issue }: KeyIssue): KeyIssued['data'] => ({
  ...issue,
  ...capFields(cap),
  ...(name !== null && { name }),
  ...(expiresAtMs !== null && { expiresAt: isoTime(expiresAtMs) }),
  ...(networks !== null && { networks }),
})

/** Why no further key can be issued; null if one can. */
export const refusalToIssue = (
  keys: ImmutableMap<string, Pick<KeyState, 'revoked' | 'expiresAtMs'>>,
  expiresAtMs: number | null,
  nowMs: number,
): Extract<AccountRefusal, { readonly code: 'expiry_passed' | 'too_many_keys' }> | null => {
  if (expiresAtMs !== null && expiresAtMs <= nowMs) return { code: 'expiry_passed' }
  const activeCount = keys.count((key) => isKeyActive(key, nowMs))
  return activeCount >= maxActiveKeys ? { code: 'too_many_keys', limit: maxActiveKeys } : null
}

/** A cap is no limit of a key that cannot make what it covers. */
const coversNothing = (scopes: readonly Scope[], cap: KeyCap | null): boolean =>
  cap !== null && !scopes.includes('buy') && (cap.covers === 'orders' || !scopes.includes('scrape'))

/**
 * A key id is issued only once. Refusals: `unknown_account`, `expiry_passed`, `too_many_keys`, `cap_covers_nothing`.
 * @throws RangeError for an invalid cap
 */
export const decideIssue = (state: AccountState, issue: KeyIssue, nowMs: number): AccountDecision => {
  const data = issuedData(issue)
  if (!state) return unknownAccount
  if (state.keys.has(issue.keyId)) return decided()
  if (coversNothing(issue.scopes, issue.cap)) return refused({ code: 'cap_covers_nothing' })
  const refusal = refusalToIssue(state.keys, issue.expiresAtMs, nowMs)
  return refusal ? refused(refusal) : decided({ type: 'KeyIssued', data })
}

export type KeyRoll = {
  /** The key that is replaced. */
  readonly keyId: KeyId
  /** How long the replaced key still works, milliseconds. */
  readonly overlapMs: number
  readonly next: {
    readonly keyId: KeyId
    readonly displayPrefix: string
    readonly commitment: string
    /** If absent, the new key gets the lifetime that the replaced key had when it was issued. */
    readonly expiresAtMs?: number
  }
}

/**
 * Issues a key with the name, scopes, cap and networks of another key, which expires after the overlap. The spending of
 * both counts together, so that a cap is not doubled. Refusals: `unknown_account`, `unknown_key`, `key_revoked`,
 * `key_expired`, `expiry_passed`, `too_many_keys`.
 * @throws RangeError for a negative overlap
 */
export const decideRoll = (state: AccountState, roll: KeyRoll, nowMs: number): AccountDecision => {
  if (!(roll.overlapMs >= 0)) throw new RangeError(`${roll.overlapMs} is no overlap in milliseconds`)
  if (!state) return unknownAccount
  if (state.keys.has(roll.next.keyId)) return decided()
  const previousKey = state.keys.get(roll.keyId)
  if (!previousKey) return refused({ code: 'unknown_key' })
  if (previousKey.revoked) return refused({ code: 'key_revoked' })
  if (!isKeyActive(previousKey, nowMs)) return refused({ code: 'key_expired' })
  const { scopes, name, networks, capKeyId, lifetimeMs } = previousKey
  const { keyId, displayPrefix, commitment } = roll.next
  const expiresAtMs = roll.next.expiresAtMs ?? (lifetimeMs === null ? null : nowMs + lifetimeMs)
  const refusal = refusalToIssue(state.keys, expiresAtMs, nowMs)
  if (refusal) return refused(refusal)
  const carriedOver = { scopes, cap: capOf(previousKey), name, networks }
  const issue = issuedData({ keyId, displayPrefix, commitment, ...carriedOver, expiresAtMs })
  const next: AccountEvent = { type: 'KeyIssued', data: { ...issue, rolledFrom: roll.keyId, capKeyId } }
  const endsAtMs = nowMs + roll.overlapMs
  // A key that expires before the end of the overlap is not extended.
  if (previousKey.expiresAtMs !== null && previousKey.expiresAtMs <= endsAtMs) return decided(next)
  return decided<AccountEvent>(next, {
    type: 'KeyExpirySet',
    data: { keyId: roll.keyId, expiresAt: isoTime(endsAtMs) },
  })
}

/** A new cap of a key, whole cents. It covers what the former cap covered, unless it says otherwise. */
export type NewCap = { readonly cents: number; readonly covers?: CapCovers | undefined }

/**
 * Sets or removes (null) the cap of a key, and of the keys that it replaced or that replaced it: their spending counts
 * together, so another cap of one of them would be a way around it. Revoked keys have it, too, because a subscription
 * that one of them ordered is renewed within its cap. Refusals: `unknown_account`, `unknown_key`,
 * `key_revoked`, `cap_covers_nothing`.
 * @throws RangeError for an invalid cap
 */
export const decideCap = (
  state: AccountState,
  { keyId, cap: wanted }: { readonly keyId: KeyId; readonly cap: NewCap | null },
): AccountDecision => {
  if (!state) return unknownAccount
  const key = state.keys.get(keyId)
  if (!key) return refused({ code: 'unknown_key' })
  if (key.revoked) return refused({ code: 'key_revoked' })
  const cap = wanted && { cents: wanted.cents, covers: wanted.covers ?? key.capCovers }
  if (coversNothing(key.scopes, cap)) return refused({ code: 'cap_covers_nothing' })
  const { capKeyId } = key
  return decided(
    ...[...state.keys].flatMap(([id, one]): AccountEvent[] => {
      const former = capOf(one)
      if (one.capKeyId !== capKeyId) return []
      if (former?.cents === cap?.cents && former?.covers === cap?.covers) return []
      const data = { keyId: id, ...capFields(cap), ...(capKeyId !== id && { capKeyId }) }
      return [{ type: 'KeyCapped', data }]
    }),
  )
}

/** A revoked key never works again. Refusals: `unknown_account`, `unknown_key`. */
export const decideRevocation = (
  state: AccountState,
  { keyId }: { readonly keyId: KeyId },
): AccountDecision => {
  if (!state) return unknownAccount
  const key = state.keys.get(keyId)
  if (!key) return refused({ code: 'unknown_key' })
  return key.revoked ? decided() : decided({ type: 'KeyRevoked', data: { keyId } })
}

/** The commitments of one account that an upgrade found in the vault. */
export type FoundInVault = {
  readonly accountId: AccountId
  readonly emailCommitment: string | null
  readonly keys: readonly { readonly keyId: KeyId; readonly commitment: string }[]
}

/** Adopts commitments that no event has yet. Existing commitments do not change. */
export const decideAdoption = (state: AccountState, vaultValues: FoundInVault): Decided<AccountEvent> => {
  if (!state) return decided()
  const keys = vaultValues.keys.filter(({ keyId }) => state.keys.get(keyId)?.commitment === null)
  const emailCommitment = state.emailCommitment === null ? vaultValues.emailCommitment : null
  if (emailCommitment === null && keys.length === 0) return decided()
  const data = { accountId: vaultValues.accountId, emailCommitment, keys }
  return decided({ type: 'AccountCommitmentsAdopted', data })
}

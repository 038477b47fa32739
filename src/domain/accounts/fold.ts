import { Map as ImmutableMap } from 'immutable'
import type { Fold } from '../../kernel/decider.ts'
import type { AccountId, KeyId } from '../../kernel/ids.ts'
import type { CapCovers, KeyCap, KeyScope as Scope } from '../../kernel/scopes.ts'
import { accountStream } from '../../kernel/streams.ts'
import type { AccountEvent } from './events.ts'

export type KeyState = {
  readonly scopes: readonly Scope[]
  readonly dailyCapCents: number | null
  readonly capCovers: CapCovers
  /** The first 8 characters of the key. */
  readonly displayPrefix: string
  readonly revoked: boolean
  readonly name: string | null
  /** Milliseconds since the epoch; null for a key that works until it is revoked. */
  readonly expiresAtMs: number | null
  /** Its lifetime at its issue, milliseconds; null if it had no end. */
  readonly lifetimeMs: number | null
  /** The networks that it works from; null for any. */
  readonly networks: readonly string[] | null
  /** The key under which its spending counts: the first key of its rolls, or itself. */
  readonly capKeyId: KeyId
  /** Commits to its hash in the vault; null for a key of an older release, which gives no access. */
  readonly commitment: string | null
}

/** The cap of a key; null for none. */
export const capOf = ({
  dailyCapCents,
  capCovers,
}: Pick<KeyState, 'dailyCapCents' | 'capCovers'>): KeyCap | null =>
  dailyCapCents === null ? null : { cents: dailyCapCents, covers: capCovers }

/** Whether the key works at this time. Access ends at `expiresAtMs`. */
export const isKeyActive = (
  { revoked, expiresAtMs }: Pick<KeyState, 'revoked' | 'expiresAtMs'>,
  nowMs: number,
): boolean => !revoked && (expiresAtMs === null || nowMs < expiresAtMs)

/**
 * Adds commitments to keys that have none.
 * @throws Error for a key that was never issued
 */
export const adoptKeyCommitments = <Id extends string, Key extends Pick<KeyState, 'commitment'>>(
  keys: ImmutableMap<Id, Key>,
  commitments: readonly (readonly [id: Id, commitment: string])[],
): ImmutableMap<Id, Key> =>
  commitments.reduce((all, [id, commitment]) => {
    const key = all.get(id)
    if (!key) throw new Error(`a commitment to the key ${id} that was never issued`)
    return key.commitment === null ? all.set(id, { ...key, commitment }) : all
  }, keys)

/** The state of an `account-{id}` stream; null before the account is created. */
export type AccountState = {
  readonly reseller: boolean
  readonly blocked: boolean
  /** How often it was blocked. */
  readonly blocks: number
  /** Commits to its e-mail in the vault; null for an account of an older release. */
  readonly emailCommitment: string | null
  /** A fall of the available balance below it is notified; null: no fall is. */
  readonly lowBalanceMicros: number | null
  readonly keys: ImmutableMap<KeyId, KeyState>
} | null

const evolve: Fold<AccountState, AccountEvent>['evolve'] = (state, event) => {
  if (event.type === 'AccountCreated') {
    if (state) throw new Error(`account ${event.data.accountId} was created twice`)
    const { reseller, emailCommitment = null } = event.data
    return {
      reseller,
      blocked: false,
      blocks: 0,
      emailCommitment,
      lowBalanceMicros: null,
      keys: ImmutableMap(),
    }
  }
  if (!state) throw new Error(`${event.type} on an account that was never created`)
  const changeKey = (keyId: string, change: Partial<KeyState>) => {
    const key = state.keys.get(keyId as KeyId)
    if (!key) throw new Error(`${event.type} on the key ${keyId} that was never issued`)
    return { ...state, keys: state.keys.set(keyId as KeyId, { ...key, ...change }) }
  }
  switch (event.type) {
    case 'AccountBlocked':
      return { ...state, blocked: true, blocks: state.blocks + 1 }
    case 'AccountUnblocked':
      return { ...state, blocked: false }
    case 'KeyIssued': {
      const {
        scopes,
        dailyCapCents,
        capCovers,
        displayPrefix,
        name,
        expiresAt,
        networks,
        capKeyId,
        commitment,
      } = event.data
      const keyId = event.data.keyId as KeyId
      const expiresAtMs = expiresAt === undefined ? null : Date.parse(expiresAt)
      const issued: KeyState = {
        scopes,
        dailyCapCents,
        capCovers: capCovers ?? 'orders',
        displayPrefix,
        revoked: false,
        name: name ?? null,
        expiresAtMs,
        lifetimeMs: expiresAtMs === null ? null : expiresAtMs - event.recordedAtMs,
        networks: networks ?? null,
        capKeyId: (capKeyId ?? keyId) as KeyId,
        commitment: commitment ?? null,
      }
      return { ...state, keys: state.keys.set(keyId, issued) }
    }
    case 'KeyExpirySet':
      return changeKey(event.data.keyId, { expiresAtMs: Date.parse(event.data.expiresAt) })
    case 'KeyCapped':
      return changeKey(event.data.keyId, {
        dailyCapCents: event.data.dailyCapCents,
        capCovers: event.data.capCovers ?? 'orders',
      })
    case 'KeyRevoked':
      return changeKey(event.data.keyId, { revoked: true })
    case 'LowBalanceThresholdSet':
      return { ...state, lowBalanceMicros: event.data.thresholdMicros }
    case 'AccountCommitmentsAdopted': {
      const { emailCommitment, keys } = event.data
      return {
        ...state,
        emailCommitment: state.emailCommitment ?? emailCommitment,
        keys: adoptKeyCommitments(
          state.keys,
          keys.map(({ keyId, commitment }) => [keyId as KeyId, commitment]),
        ),
      }
    }
    default: {
      const unknown: never = event
      throw new Error(`unknown account event ${JSON.stringify(unknown)}`)
    }
  }
}

/** Never snapshotted, because an account has few events. */
export const accountFold: Fold<AccountState, AccountEvent> = {
  name: 'account',
  version: 1,
  initial: null,
  evolve,
}

/** The stream reference of an account for a command. */
export const accountRef = (account: AccountId) => ({ stream: accountStream(account), fold: accountFold })

import type pg from 'pg'
import type { Logger } from 'pino'
import {
  type AccountDecision,
  type AccountRefusal,
  decideBlock,
  decideCap,
  decideCreation,
  decideIssue,
  decideLowBalance,
  decideRevocation,
  decideRoll,
  decideUnblock,
  type NewCap,
} from '../../domain/accounts/decide.ts'
import type { AccountEvent } from '../../domain/accounts/events.ts'
import { type AccountState, accountRef } from '../../domain/accounts/fold.ts'
import { refused } from '../../kernel/decider.ts'
import { actorText, type Cause, type RecordedEvent } from '../../kernel/event.ts'
import { isEmail } from '../../kernel/formats.ts'
import { type AccountId, type KeyId, newId } from '../../kernel/ids.ts'
import type { KeyCap, KeyScope as Scope } from '../../kernel/scopes.ts'
import { accountStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle, type Result, readState } from '../../platform/commands/command.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { accountOfEmail, accountOfKey, claimEmail, emailOf, type StoredEmail } from './account-vault.ts'
import { type ApiKey, apiKeyKind } from './api-key.ts'
import { generateStoredKey, type NewKey } from './key-store.ts'

/** The block of an account that may only read: reason, time (ISO 8601 UTC) and operator. */
export type Block = { readonly reason: string; readonly at: string; readonly by: string }

/** The current block of the account; null if it is not blocked. */
export const blockOf = async (
  log: Pick<EventLog, 'readStream'>,
  accountId: AccountId,
): Promise<Block | null> => {
  let block: Block | null = null
  for await (const stored of log.readStream(accountStream(accountId))) {
    const event = decode(stored) as RecordedEvent<AccountEvent>
    if (event.type === 'AccountUnblocked') block = null
    if (event.type === 'AccountBlocked') {
      const { actor, recordedAt } = event.metadata
      block = { reason: event.data.reason, at: recordedAt, by: actorText(actor) }
    }
  }
  return block
}

export type AccountsRefusal =
  | AccountRefusal
  /** `accountId` is the account that owns the e-mail. */
  | { readonly code: 'email_taken'; readonly accountId: AccountId }
  | { readonly code: 'invalid_email' }

export type AccountsResult<Value = object> = Result<AccountsRefusal, Value>

/**
 * Changes accounts and keys. Each change is an event with its actor. Rows of the vault are written before the event and
 * have no effect without it. After a crash in between, the vault has an e-mail that the next `create` uses again, or
 * the hash of a key that does not exist.
 */
export type Accounts = {
  /** Refusals: `invalid_email`, `email_taken`. */
  create(
    account: { readonly email: string; readonly reseller: boolean },
    cause: Cause,
  ): Promise<AccountsResult<{ readonly accountId: AccountId }>>
  /** Refusal: `unknown_account`. */
  block(accountId: AccountId, reason: string, cause: Cause): Promise<AccountsResult>
  /** Refusal: `unknown_account`. */
  unblock(accountId: AccountId, cause: Cause): Promise<AccountsResult>
  /**
   * Sets the available balance below which the account is notified, whole cents; null removes it. Refusal:
   * `unknown_account`.
   */
  setLowBalance(accountId: AccountId, thresholdCents: number | null, cause: Cause): Promise<AccountsResult>
  /** Returns the key; it is never shown again. Refusals: `unknown_account`, `expiry_passed`, `too_many_keys`, `cap_covers_nothing`. */
  issueKey(
    issue: {
      readonly accountId: AccountId
      readonly scopes: readonly Scope[]
      readonly cap: KeyCap | null
      /** The operator's name for the key. */
      readonly name?: string | null
      /** Milliseconds since the epoch; null: until it is revoked. */
      readonly expiresAtMs?: number | null
      /** The only addresses and networks that may use the key; null: any. */
      readonly networks?: readonly string[] | null
    },
    cause: Cause,
  ): Promise<AccountsResult<{ readonly keyId: KeyId; readonly key: ApiKey }>>
  /**
   * Issues a key that replaces another one, which expires after the overlap (`decideRoll`). The key is never shown
   * again. Refusals: `unknown_key`, `key_revoked`, `key_expired`, `expiry_passed`, `too_many_keys`.
   */
  rollKey(
    roll: { readonly keyId: KeyId; readonly overlapMs: number; readonly expiresAtMs?: number },
    cause: Cause,
  ): Promise<AccountsResult<{ readonly accountId: AccountId; readonly keyId: KeyId; readonly key: ApiKey }>>
  /** Null removes the cap. Refusals: `unknown_key`, `key_revoked`. */
  capKey(
    keyId: KeyId,
    cap: NewCap | null,
    cause: Cause,
  ): Promise<AccountsResult<{ readonly accountId: AccountId }>>
  /** Refusal: `unknown_key`. */
  revokeKey(keyId: KeyId, cause: Cause): Promise<AccountsResult<{ readonly accountId: AccountId }>>
  /**
   * The account with this e-mail, in any case, and the e-mail as it is stored. Null if no account has it, or if the
   * stored e-mail does not match the commitment in the events; such a row is logged.
   */
  byEmail(
    email: string,
    cause: Cause,
  ): Promise<{ readonly accountId: AccountId; readonly email: string } | null>
  /** The account's e-mail; null if it was erased or does not match the commitment in the events. */
  emailOf(accountId: AccountId, cause: Cause): Promise<string | null>
  /** The current state of the account in the log; null for an unknown one. */
  read(accountId: AccountId, cause: Cause): Promise<AccountState>
}

/** Finds an account by its id or its e-mail; null if there is none. */
export type FindAccount = (idOrEmail: string) => Promise<AccountId | null>

export const createAccounts = ({
  pool,
  runner,
  logger,
}: {
  readonly pool: pg.Pool
  readonly runner: CommandRunner
  readonly logger: Pick<Logger, 'error'>
}): Accounts => {
  const change = (
    name: string,
    accountId: AccountId,
    cause: Cause,
    decide: (state: AccountState, nowMs: number) => AccountDecision,
  ): Promise<AccountsResult> =>
    handle(runner, { ...cause, name, account: accountId }, accountRef(accountId), (state, { nowMs }) =>
      decide(state, nowMs),
    )

  const makeKey = (
    name: string,
    accountId: AccountId,
    cause: Cause,
    decide: (state: AccountState, newKey: NewKey<KeyId>, nowMs: number) => AccountDecision,
  ): Promise<AccountsResult<{ readonly keyId: KeyId; readonly key: ApiKey }>> =>
    generateStoredKey(pool, apiKeyKind, accountId, (newKey: NewKey<KeyId>) =>
      change(name, accountId, cause, (state, nowMs) => decide(state, newKey, nowMs)),
    )

  const changeKey = async (
    name: string,
    keyId: KeyId,
    cause: Cause,
    decide: (state: AccountState) => AccountDecision,
  ): Promise<AccountsResult<{ readonly accountId: AccountId }>> => {
    const accountId = await accountOfKey(pool, keyId)
    if (accountId === null) return refused({ code: 'unknown_key' })
    const result = await change(name, accountId, cause, decide)
    return result.outcome === 'done' ? { ...result, accountId } : result
  }

  const read = (accountId: AccountId, cause: Cause): Promise<AccountState> =>
    readState(runner, { ...cause, name: 'read-account' }, accountRef(accountId))

  /** The e-mail of a row if it is the one that the account was created with, else null. */
  const checkedEmail = async (stored: StoredEmail | null, cause: Cause): Promise<StoredEmail | null> => {
    // The log is read in either case, so that the response time does not show whether the address exists.
    const state = await read(stored?.accountId ?? ('acc_' as AccountId), cause)
    if (stored === null || state === null) return null
    if (stored.commitment !== null && stored.commitment === state.emailCommitment) return stored
    const { accountId } = stored
    logger.error({ accountId }, 'the e-mail of an account is not the one that its events commit to')
    return null
  }

  return {
    async create({ email, reseller }, cause) {
      if (!isEmail(email)) return refused({ code: 'invalid_email' })
      const { accountId, commitment } = await claimEmail(pool, email, newId<AccountId>('acc'))
      const result = await change('create-account', accountId, cause, (state) =>
        decideCreation(state, { accountId, reseller, emailCommitment: commitment }),
      )
      if (result.outcome === 'done') return { ...result, accountId }
      const taken = result.refusal.code === 'account_exists'
      return taken ? refused({ code: 'email_taken', accountId }) : result
    },

    block: (accountId, reason, cause) =>
      change('block-account', accountId, cause, (state) => decideBlock(state, { reason })),

    unblock: (accountId, cause) => change('unblock-account', accountId, cause, decideUnblock),

    setLowBalance: (accountId, thresholdCents, cause) =>
      change('set-low-balance', accountId, cause, (state) => decideLowBalance(state, thresholdCents)),

    issueKey: ({ accountId, ...issue }, cause) =>
      makeKey('issue-key', accountId, cause, (state, newKey, nowMs) =>
        decideIssue(state, { name: null, expiresAtMs: null, networks: null, ...issue, ...newKey }, nowMs),
      ),

    async rollKey({ keyId, overlapMs, expiresAtMs }, cause) {
      const accountId = await accountOfKey(pool, keyId)
      if (accountId === null) return refused({ code: 'unknown_key' })
      const issued = await makeKey('roll-key', accountId, cause, (state, newKey, nowMs) => {
        const next = expiresAtMs === undefined ? newKey : { ...newKey, expiresAtMs }
        return decideRoll(state, { keyId, overlapMs, next }, nowMs)
      })
      return issued.outcome === 'done' ? { ...issued, accountId } : issued
    },

    capKey: (keyId, cap, cause) =>
      changeKey('cap-key', keyId, cause, (state) => decideCap(state, { keyId, cap })),

    revokeKey: (keyId, cause) =>
      changeKey('revoke-key', keyId, cause, (state) => decideRevocation(state, { keyId })),

    byEmail: async (email, cause) => checkedEmail(await accountOfEmail(pool, email), cause),

    emailOf: async (accountId, cause) =>
      (await checkedEmail(await emailOf(pool, accountId), cause))?.email ?? null,

    read,
  }
}

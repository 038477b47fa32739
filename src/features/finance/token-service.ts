import type pg from 'pg'
import type { Logger } from 'pino'
import { isKeyActive } from '../../domain/accounts/fold.ts'
import {
  decideTokenIssue,
  decideTokenRevocation,
  type FinanceTokenState,
  financeTokenFold,
} from '../../domain/finance/tokens.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Cause } from '../../kernel/event.ts'
import { financeStream } from '../../kernel/streams.ts'
import { tokenForm } from '../../kernel/token-form.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle, readState } from '../../platform/commands/command.ts'
import { createStreamStates } from '../../platform/commands/log-states.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { FinanceCaller, FinanceDirectory } from '../../platform/http/auth.ts'
import { refuseWithRetryAfter } from '../../platform/http/errors.ts'
import {
  createKeyFinder,
  generateStoredKey,
  type KeyKind,
  type KeyRow,
  type NewKey,
} from '../accounts/index.ts'

declare const brand: unique symbol

/** A complete finance token, a secret: `fbf_` and the form of an API key. It is valid for `/finance/v1` only. */
export type FinanceToken = string & { readonly [brand]: 'FinanceToken' }

export const financeTokenForm = tokenForm<FinanceToken>('fbf_')

export const financeTokenKind: KeyKind<FinanceToken> = {
  form: financeTokenForm,
  idPrefix: 'fin',
  what: 'finance-token',
  insert: ({ hash, id, salt }) => ({
    text: 'insert into vault.finance_tokens (hash, token_id, salt) values ($1::bytea, $2::text, $3::bytea)',
    values: [hash, id, salt],
  }),
  deleteSql: 'delete from vault.finance_tokens where token_id = $1::text',
  findQuery: {
    name: 'find-finance-tokens',
    text: `select hash, salt, token_id as id, '${financeStream}' as owner
             from vault.finance_tokens where hash = any ($1::bytea[])`,
  },
}

const tokensRef = { stream: financeStream, fold: financeTokenFold }

/** Issues and revokes finance tokens: events with their actor. */
export const createFinanceTokenService = ({
  pool,
  runner,
}: {
  readonly pool: pg.Pool
  readonly runner: CommandRunner
}) => ({
  /** Returns the token; it is never shown again. Refusals: `expiry_passed`, `too_many_keys`. */
  issue: (
    { name, expiresAtMs }: { readonly name: string; readonly expiresAtMs: number | null },
    cause: Cause,
  ) =>
    generateStoredKey(
      pool,
      financeTokenKind,
      financeStream,
      ({ keyId: tokenId, ...newKey }: NewKey<string>) =>
        handle(runner, { ...cause, name: 'issue-finance-token' }, tokensRef, (state, { nowMs }) =>
          decideTokenIssue(state, { tokenId, name, expiresAtMs, ...newKey }, nowMs),
        ),
    ),
  /** Refusal: `unknown_token`. */
  revoke: (tokenId: string, cause: Cause) =>
    handle(runner, { ...cause, name: 'revoke-finance-token' }, tokensRef, (state) =>
      decideTokenRevocation(state, tokenId),
    ),
  /** All issued tokens, oldest first. */
  read: (cause: Cause) => readState(runner, { ...cause, name: 'read-finance-tokens' }, tokensRef),
})

/**
 * Authenticates finance tokens. Issue and revocation are read from the log at each request, because finance requests
 * are rare: a revocation takes effect at once on every process. A token with a wrong checksum needs no query.
 */
export const createFinanceDirectory = ({
  pool,
  log,
  logger,
  clock,
  clockProblem,
}: {
  readonly pool: pg.Pool
  readonly log: Pick<EventLog, 'readStreams'>
  readonly logger: Pick<Logger, 'error'>
  readonly clock: Clock
  /** A problem of this process's clock, or null. With a problem no token's expiry can be checked. */
  readonly clockProblem: () => string | null
}): FinanceDirectory => {
  const stateOf = createStreamStates(log, { maxCached: 1, whileAway: 'error' })
  const findToken = createKeyFinder<KeyRow, { readonly key: FinanceTokenState }>(
    pool,
    financeTokenKind,
    async ({ id }) => {
      const key = (await stateOf(tokensRef)).state.get(id)
      return key ? { key } : null
    },
    ({ id }) =>
      logger.error({ tokenId: id }, 'the hash of a finance token is not the one that its event commits to'),
  )
  return {
    async byToken(text): Promise<FinanceCaller | null> {
      const token = financeTokenForm.parse(text)
      if (token === null) return null
      const problem = clockProblem()
      if (problem !== null) throw refuseWithRetryAfter('overloaded', problem, 5)
      const found = await findToken(financeTokenForm.hash(token))
      return found && isKeyActive(found.key, clock()) ? { tokenId: found.row.id } : null
    },
  }
}

import type pg from 'pg'
import type { Logger } from 'pino'
import {
  decideTokenIssue,
  decideTokenRevocation,
  type FinanceTokenEvent,
  type FinanceTokenRefusal,
  type FinanceTokens,
  financeTokenFold,
  isTokenActive,
} from '../../domain/finance/tokens.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Cause, RecordedEvent } from '../../kernel/event.ts'
import { newId } from '../../kernel/ids.ts'
import { financeStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle, type Result, readState } from '../../platform/commands/command.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { FinanceCaller, FinanceDirectory } from '../../platform/http/auth.ts'
import { refuseWithRetryAfter } from '../../platform/http/errors.ts'
import { createBatchLoader } from '../../platform/postgres/batch-loader.ts'
import { commitmentOf, freshSalt, saltedText } from '../../platform/vault/seal.ts'
import { tokenForm } from '../../platform/vault/secrets.ts'

declare const brand: unique symbol

/** A complete finance token, a secret: `fbf_` and the form of an API key. It is valid for `/finance/v1` only. */
export type FinanceToken = string & { readonly [brand]: 'FinanceToken' }

export const financeTokenForm = tokenForm<FinanceToken>('fbf_')

/** The commitment of a finance token in its event. */
export const financeTokenCommitment = (tokenId: string, salt: Uint8Array, hash: Uint8Array): string =>
  commitmentOf({ what: 'finance-token', id: tokenId, owner: financeStream }, saltedText(salt, hash))

/** Issues and revokes finance tokens: events with their actor. The hash is stored first and grants nothing alone. */
export type FinanceTokenService = {
  /** Returns the token; it is never shown again. Refusals: `expiry_passed`, `too_many_tokens`. */
  issue(
    issue: { readonly name: string; readonly expiresAtMs: number | null },
    cause: Cause,
  ): Promise<Result<FinanceTokenRefusal, { readonly tokenId: string; readonly token: FinanceToken }>>
  /** Refusal: `unknown_token`. */
  revoke(tokenId: string, cause: Cause): Promise<Result<FinanceTokenRefusal>>
  /** All issued tokens, oldest first. */
  read(cause: Cause): Promise<FinanceTokens>
}

const tokensRef = { stream: financeStream, fold: financeTokenFold }

export const createFinanceTokenService = ({
  pool,
  runner,
}: {
  readonly pool: pg.Pool
  readonly runner: CommandRunner
}): FinanceTokenService => {
  return {
    async issue({ name, expiresAtMs }, cause) {
      const token = financeTokenForm.generate()
      const tokenId = newId<string>('fin')
      const hash = financeTokenForm.hash(token)
      const salt = freshSalt()
      await pool.query(
        'insert into vault.finance_tokens (hash, token_id, salt) values ($1::bytea, $2::text, $3::bytea)',
        [hash, tokenId, salt],
      )
      const displayPrefix = financeTokenForm.displayPrefixOf(token)
      const commitment = financeTokenCommitment(tokenId, salt, hash)
      const result = await handle(
        runner,
        { ...cause, name: 'issue-finance-token' },
        tokensRef,
        (state, { nowMs }) =>
          decideTokenIssue(state, { tokenId, name, displayPrefix, expiresAtMs, commitment }, nowMs),
      )
      if (result.outcome === 'done') return { ...result, tokenId, token }
      await pool.query('delete from vault.finance_tokens where token_id = $1::text', [tokenId])
      return result
    },
    revoke: (tokenId, cause) =>
      handle(runner, { ...cause, name: 'revoke-finance-token' }, tokensRef, (state) =>
        decideTokenRevocation(state, tokenId),
      ),
    read: (cause) => readState(runner, { ...cause, name: 'read-finance-tokens' }, tokensRef),
  }
}

/**
 * Authenticates finance tokens. Issue and revocation are read from the log at each request, because finance requests
 * are rare: a revocation takes effect at once on every process. The commitment of the token's hash is also read from
 * the log: a row that was replaced in the database does not authenticate, and is logged. A token with a wrong checksum
 * needs no query.
 */
export const createFinanceDirectory = (deps: {
  readonly pool: pg.Pool
  readonly log: Pick<EventLog, 'readStream'>
  readonly logger: Pick<Logger, 'error'>
  readonly clock: Clock
  /** A problem of this process's clock, or null. With a problem no token's expiry can be checked. */
  readonly clockProblem: () => string | null
}): FinanceDirectory => {
  const readTokens = async (): Promise<FinanceTokens> => {
    let state = financeTokenFold.initial
    for await (const stored of deps.log.readStream(financeStream)) {
      const event = decode(stored) as RecordedEvent<FinanceTokenEvent>
      state = financeTokenFold.evolve(state, {
        ...event,
        recordedAtMs: Date.parse(event.metadata.recordedAt),
      })
    }
    return state
  }
  // Concurrent requests share one read, which begins after they arrived.
  const tokens = createBatchLoader<'all', FinanceTokens>(async () => new Map([['all', await readTokens()]]))
  type Row = { readonly hash: string; readonly token_id: string; readonly salt: Buffer | null }
  const rowOf = createBatchLoader<string, Row>(async (hashes) => {
    const { rows } = await deps.pool.query<Row>({
      name: 'find-finance-tokens',
      text: `select encode(hash, 'hex') as hash, token_id, salt from vault.finance_tokens
              where hash in (select decode(wanted, 'hex') from unnest($1::text[]) as wanted)`,
      values: [hashes],
    })
    return new Map(rows.map((row) => [row.hash, row]))
  })
  return {
    async byToken(text): Promise<FinanceCaller | null> {
      const token = financeTokenForm.parse(text)
      if (token === null) return null
      const problem = deps.clockProblem()
      if (problem !== null) throw refuseWithRetryAfter('overloaded', problem, 5)
      const hash = financeTokenForm.hash(token)
      const row = await rowOf(hash.toString('hex'))
      if (row === undefined) return null
      const { token_id: tokenId, salt } = row
      const issued = (await tokens('all'))?.get(tokenId)
      if (!issued || !isTokenActive(issued, deps.clock())) return null
      if (salt !== null && issued.commitment === financeTokenCommitment(tokenId, salt, hash))
        return { tokenId }
      deps.logger.error({ tokenId }, 'the hash of a finance token is not the one that its event commits to')
      return null
    },
  }
}

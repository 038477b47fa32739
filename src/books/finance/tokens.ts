import type pg from 'pg'
import { newId } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import { handle, type Result, readState } from '../../platform/eventstore/commands/handle.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import { tokenForm } from '../../platform/vault/token-form.ts'
import { financeStream } from '../../terms/streams.ts'
import { decideTokenIssue, decideTokenRevocation, type FinanceTokenRefusal } from './token-decide.ts'
import { type FinanceTokens, financeTokenFold } from './token-fold.ts'

declare const brand: unique symbol

/** A whole finance token, a secret: `fbf_` and the form of an API key. It is none: it opens `/finance/v1` only. */
export type FinanceToken = string & { readonly [brand]: 'FinanceToken' }

export const financeTokenForm = tokenForm<FinanceToken>('fbf_')

/** Issues and revokes finance tokens: events with their actor. The hash is written first and opens nothing by itself. */
export type TokenDesk = {
  /** The token is shown this once. Refusals: `expiry_passed`, `too_many_tokens`. */
  issue(
    issue: { readonly name: string; readonly expiresAtMs: number | null },
    cause: Cause,
  ): Promise<Result<FinanceTokenRefusal, { readonly tokenId: string; readonly token: FinanceToken }>>
  /** Refusal: `unknown_token`. */
  revoke(tokenId: string, cause: Cause): Promise<Result<FinanceTokenRefusal>>
  /** All tokens that were ever issued, oldest first. */
  read(cause: Cause): Promise<FinanceTokens>
}

const tokensRef = { stream: financeStream, fold: financeTokenFold }

export const createTokenDesk = ({
  pool,
  runner,
}: {
  readonly pool: pg.Pool
  readonly runner: CommandRunner
}): TokenDesk => {
  return {
    async issue({ name, expiresAtMs }, cause) {
      const token = financeTokenForm.generate()
      const tokenId = newId<string>('fin')
      const hash = financeTokenForm.hash(token)
      await pool.query('insert into vault.finance_tokens (hash, token_id) values ($1::bytea, $2::text)', [
        hash,
        tokenId,
      ])
      const displayPrefix = financeTokenForm.displayPrefixOf(token)
      const result = await handle(
        runner,
        { ...cause, name: 'issue-finance-token' },
        tokensRef,
        (state, { nowMs }) => decideTokenIssue(state, { tokenId, name, displayPrefix, expiresAtMs }, nowMs),
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

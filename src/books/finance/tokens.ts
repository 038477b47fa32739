import type pg from 'pg'
import { newId } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import { tokenForm } from '../../platform/vault/token-form.ts'
import { financeStream } from '../../terms/streams.ts'
import {
  decideTokenIssue,
  decideTokenRevocation,
  type FinanceTokenDecision,
  type FinanceTokenRefusal,
} from './token-decide.ts'
import type { FinanceTokenEvent } from './token-events.ts'
import { type FinanceTokens, financeTokenFold } from './token-fold.ts'

declare const brand: unique symbol

/** A whole finance token, a secret: `fbf_` and the form of an API key. It is none: it opens `/finance/v1` only. */
export type FinanceToken = string & { readonly [brand]: 'FinanceToken' }

export const financeTokenForm = tokenForm<FinanceToken>('fbf_')

type Result<Made = object> =
  | ({ readonly outcome: 'done'; readonly changed: boolean } & Made)
  | { readonly outcome: 'refused'; readonly refusal: FinanceTokenRefusal }

/** Issues and revokes finance tokens: events with their actor. The hash is written first and opens nothing by itself. */
export type TokenDesk = {
  /** The token is shown this once. Refusals: `expiry_passed`, `too_many_tokens`. */
  issue(
    issue: { readonly name: string; readonly expiresAtMs: number | null },
    cause: Cause,
  ): Promise<Result<{ readonly tokenId: string; readonly token: FinanceToken }>>
  /** Refusal: `unknown_token`. */
  revoke(tokenId: string, cause: Cause): Promise<Result>
  /** All tokens that were ever issued, oldest first. */
  read(cause: Cause): Promise<FinanceTokens>
}

export const createTokenDesk = ({
  pool,
  runner,
}: {
  readonly pool: pg.Pool
  readonly runner: CommandRunner
}): TokenDesk => {
  const run = async <Answer>(
    name: string,
    cause: Cause,
    decide: (
      state: FinanceTokens,
      nowMs: number,
    ) => { readonly events: readonly FinanceTokenEvent[]; readonly answer: Answer },
  ): Promise<Answer> => {
    const { answer } = await runner.run({
      name,
      streams: { tokens: { stream: financeStream, fold: financeTokenFold } },
      decide: ({ tokens }, { nowMs }) => {
        const decided = decide(tokens, nowMs)
        const appends = decided.events.length === 0 ? [] : [{ stream: financeStream, events: decided.events }]
        return { appends, answer: decided.answer }
      },
      actor: cause.actor,
      correlationId: cause.correlationId,
    })
    return answer
  }
  const change = async (
    name: string,
    cause: Cause,
    decide: (state: FinanceTokens, nowMs: number) => FinanceTokenDecision,
  ): Promise<Result> => {
    const decision = await run(name, cause, (state, nowMs) => {
      const answer = decide(state, nowMs)
      return { events: answer.outcome === 'decided' ? answer.events : [], answer }
    })
    return decision.outcome === 'refused'
      ? decision
      : { outcome: 'done', changed: decision.events.length > 0 }
  }
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
      const result = await change('issue-finance-token', cause, (state, nowMs) =>
        decideTokenIssue(state, { tokenId, name, displayPrefix, expiresAtMs }, nowMs),
      )
      if (result.outcome === 'done') return { ...result, tokenId, token }
      await pool.query('delete from vault.finance_tokens where token_id = $1::text', [tokenId])
      return result
    },
    revoke: (tokenId, cause) =>
      change('revoke-finance-token', cause, (state) => decideTokenRevocation(state, tokenId)),
    read: (cause) => run('read-finance-tokens', cause, (state) => ({ events: [], answer: state })),
  }
}

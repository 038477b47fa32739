import type pg from 'pg'
import type { Clock } from '../../kernel/clock.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { RecordedEvent } from '../../platform/eventstore/event.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { FinanceCaller, FinanceDirectory } from '../../platform/http/auth.ts'
import { refuseUntil } from '../../platform/http/errors.ts'
import { createGathered } from '../../platform/postgres/gathered.ts'
import { financeStream } from '../../terms/streams.ts'
import type { FinanceTokenEvent } from './token-events.ts'
import { type FinanceTokens, financeTokenFold, works } from './token-fold.ts'
import { financeTokenForm } from './tokens.ts'

/**
 * Looks finance tokens up. Issue and revocation are read from the log with each request, for finance asks seldom: a
 * revoked token opens nothing from then on, on any process. A token with a wrong checksum costs no look-up.
 */
export const createFinanceDirectory = (deps: {
  readonly pool: pg.Pool
  readonly log: Pick<EventLog, 'readStream'>
  readonly clock: Clock
  /** What is wrong with this process's clock, by which no token is found to be expired or not; else null. */
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
  // Those who ask at once share one reading, which begins after they asked.
  const tokens = createGathered<'all', FinanceTokens>(async () => new Map([['all', await readTokens()]]))
  const tokenIdOf = createGathered<string, string>(async (hashes) => {
    const { rows } = await deps.pool.query<{ hash: string; token_id: string }>({
      name: 'find-finance-tokens',
      text: `select encode(hash, 'hex') as hash, token_id from vault.finance_tokens
              where hash in (select decode(wanted, 'hex') from unnest($1::text[]) as wanted)`,
      values: [hashes],
    })
    return new Map(rows.map((row) => [row.hash, row.token_id]))
  })
  return {
    async byToken(text): Promise<FinanceCaller | null> {
      const token = financeTokenForm.parse(text)
      if (token === null) return null
      const problem = deps.clockProblem()
      if (problem !== null) throw refuseUntil('overloaded', problem, 5)
      const tokenId = await tokenIdOf(financeTokenForm.hash(token).toString('hex'))
      const issued = tokenId === undefined ? undefined : (await tokens('all'))?.get(tokenId)
      return tokenId !== undefined && issued && works(issued, deps.clock()) ? { tokenId } : null
    },
  }
}

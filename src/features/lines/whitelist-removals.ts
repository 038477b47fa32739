import type pg from 'pg'
import { decideNetworkRemoval, whitelistRef } from '../../domain/plans/whitelist.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Cause } from '../../kernel/event.ts'
import { type AccountId, newId } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle } from '../../platform/commands/command.ts'
import type { RunningWorker, Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import { handlerGraceMs, worklist, worklistRound } from '../../platform/work/worklist.ts'

/**
 * Removals of entries that are not in the log yet. Each is stored in the transaction that deletes or changes the
 * entry's row. So the log allows every row, and a crash before the event loses no removal.
 */
export type WhitelistRemovals = {
  /** Stores that the entries with these commitments end. */
  add(client: pg.ClientBase, accountId: AccountId, commitments: readonly string[]): Promise<void>
  /** Appends the stored removals of an account. */
  append(accountId: AccountId, cause: Cause): Promise<void>
  /** Appends removals of commitments that were never written to a row. */
  appendUnwritten(accountId: AccountId, commitments: readonly string[], cause: Cause): Promise<void>
}

export const createWhitelistRemovals = ({
  pool,
  runner,
}: {
  readonly pool: pg.Pool
  readonly runner: CommandRunner
}): WhitelistRemovals => {
  const appendUnwritten: WhitelistRemovals['appendUnwritten'] = async (accountId, commitments, cause) => {
    await handle(runner, { ...cause, name: 'remove-networks' }, whitelistRef(accountId), (state) =>
      decideNetworkRemoval(state, commitments),
    )
  }
  return {
    add: async (client, accountId, commitments) => {
      await client.query(
        `insert into work.whitelist_removals (commitment, account_id) select c, $2::text from unnest($1::text[]) c
         on conflict do nothing`,
        [commitments, accountId],
      )
    },
    append: async (accountId, cause) => {
      const { rows } = await pool.query<{ commitment: string }>(
        'select commitment from work.whitelist_removals where account_id = $1::text order by commitment',
        [accountId],
      )
      if (rows.length === 0) return
      const commitments = rows.map(({ commitment }) => commitment)
      await appendUnwritten(accountId, commitments, cause)
      await pool.query('delete from work.whitelist_removals where commitment = any ($1::text[])', [
        commitments,
      ])
    },
    appendUnwritten,
  }
}

export const whitelistRemoval = worker({
  name: 'whitelist-removals',
  about: 'Records removals of whitelist entries that a crash or an outage left unrecorded',
  trigger: { everyMs: 1_000 },
  per: 'process',
  process: 'server',
})

/** Appends stored removals that their requests did not append. */
export const startWhitelistRemovals = (deps: {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly removals: Pick<WhitelistRemovals, 'append'>
  readonly clock: Clock
}): RunningWorker => {
  const { scheduler, pool, removals, clock } = deps
  const unrecordedRemovals = worklist<{ account_id: AccountId }>({
    name: 'whitelist-removals',
    read: 'select distinct account_id from work.whitelist_removals where removed_at <= $1::timestamptz',
    values: () => [isoTime(clock() - handlerGraceMs)],
    key: { account_id: 'text' },
    limit: 100,
    work: ({ account_id: accountId }) =>
      removals.append(accountId, {
        actor: { kind: 'system', name: whitelistRemoval.name },
        correlationId: newId<string>('run'),
      }),
  })
  return scheduler.start(whitelistRemoval, worklistRound(pool, [unrecordedRemovals]))
}

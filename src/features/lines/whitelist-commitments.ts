import type pg from 'pg'
import type { Targeting } from '../../domain/exits/line.ts'
import {
  decideNetworkAdoption,
  decideNetworkRemoval,
  type WhitelistState,
  whitelistRef,
} from '../../domain/plans/whitelist.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Cause } from '../../kernel/event.ts'
import { type AccountId, newId, type PlanId } from '../../kernel/ids.ts'
import { canonicalJson } from '../../kernel/json-text.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle } from '../../platform/commands/command.ts'
import { createLogStates, type LogStates } from '../../platform/commands/log-states.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { Keys } from '../../platform/vault/keys.ts'
import { commitmentOf, createRowSigner, saltedText } from '../../platform/vault/seal.ts'
import type { RunningWorker, Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import { handlerGraceMs, worklist, worklistRound } from '../../platform/work/worklist.ts'

/** The part of a `vault.whitelist` row that grants access. */
export type EntryRow = {
  readonly entry_id: string
  readonly account_id: AccountId
  readonly plan_id: PlanId
  /** As Postgres writes it, e.g. `203.0.113.7/32`. */
  readonly network: string
  readonly targeting: Targeting | null
  /** Null for an entry without a commitment in an event. */
  readonly salt: Buffer | null
}

/** The columns of an `EntryRow`. */
export const entryColumns = 'entry_id, account_id, plan_id, network::text, targeting, salt'

/** The commitment for a row; null if it has no salt. */
export const entryCommitment = (row: EntryRow): string | null =>
  row.salt &&
  commitmentOf(
    { what: 'whitelist-entry', id: row.entry_id, owner: row.account_id },
    saltedText(
      row.salt,
      row.plan_id,
      row.network,
      row.targeting === null ? '' : canonicalJson(row.targeting),
    ),
  )

/** Whether the log currently allows a row. */
export type IsAllowed = (row: EntryRow) => Promise<boolean>

/**
 * Compares rows with the log. Rows that were written or changed with SQL, or restored after a removal, are not allowed.
 */
export const createIsAllowed = (log: Pick<EventLog, 'readStreams'>): IsAllowed => {
  const states: LogStates<WhitelistState> = createLogStates(log, (owner) => whitelistRef(owner as AccountId))
  return async (row) => {
    const commitment = entryCommitment(row)
    return commitment !== null && (await states(row.account_id)).state.has(commitment)
  }
}

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
  trigger: { everyMs: 1_000, quietMs: 20_000 },
  per: 'process',
  process: 'server',
})

/** Appends stored removals that their requests did not append. */
export const startWhitelistRemovals = (dependencies: {
  readonly scheduler: Scheduler
  readonly pool: pg.Pool
  readonly removals: Pick<WhitelistRemovals, 'append'>
  readonly clock: Clock
}): RunningWorker => {
  const { scheduler, pool, removals, clock } = dependencies
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

type OldRow = EntryRow & { readonly signature: Buffer | null }

/**
 * Appends commitments for the entries of an older release. Development versions before the release of 0.2.0 signed each
 * row: rows with an invalid signature are not adopted.
 * @param withoutSignature whether the entries are from a release without signatures
 * @returns how many entries were adopted
 */
export const adoptWhitelists = async (
  dependencies: {
    readonly pool: pg.Pool
    readonly keys: Pick<Keys, 'master'>
    readonly runner: CommandRunner
  },
  cause: Cause,
  withoutSignature: boolean,
): Promise<number> => {
  const { pool, keys, runner } = dependencies
  const signer = createRowSigner(keys.master, 'whitelist entry v1')
  const isGenuine = ({ signature, account_id, plan_id, network, targeting }: OldRow): boolean =>
    signature === null
      ? withoutSignature
      : signer.isSigned([account_id, plan_id, network, targeting && canonicalJson(targeting)], signature)
  const { rows } = await pool.query<OldRow>(
    `select ${entryColumns}, signature from vault.whitelist where salt is not null order by entry_id`,
  )
  let adopted = 0
  for (const [accountId, entries] of Map.groupBy(rows.filter(isGenuine), (row) => row.account_id)) {
    const adoptedEntries = entries.map((row) => ({
      entryId: row.entry_id,
      planId: row.plan_id,
      commitment: entryCommitment(row)!,
    }))
    await handle(runner, { ...cause, name: 'adopt-whitelist' }, whitelistRef(accountId), (state) =>
      decideNetworkAdoption(state, adoptedEntries),
    )
    adopted += adoptedEntries.length
  }
  return adopted
}

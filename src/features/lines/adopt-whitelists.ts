import type pg from 'pg'
import { decideNetworkAdoption, whitelistRef } from '../../domain/plans/whitelist.ts'
import type { Cause } from '../../kernel/event.ts'
import { canonicalJson } from '../../kernel/json-text.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle } from '../../platform/commands/command.ts'
import type { Keys } from '../../platform/vault/keys.ts'
import { createRowSigner } from '../../platform/vault/seal.ts'
import { type EntryRow, entryColumns, entryCommitment } from './whitelist-commitments.ts'

type OldRow = EntryRow & { readonly signature: Buffer | null }

/**
 * Appends commitments for the entries of an older release. Development versions before the release of 0.2.0 signed each
 * row: rows with an invalid signature are not adopted.
 * @param withoutSignature whether the entries are from a release without signatures
 * @returns how many entries were adopted
 */
export const adoptWhitelists = async (
  deps: { readonly pool: pg.Pool; readonly keys: Pick<Keys, 'master'>; readonly runner: CommandRunner },
  cause: Cause,
  withoutSignature: boolean,
): Promise<number> => {
  const { pool, keys, runner } = deps
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

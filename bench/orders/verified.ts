import { assertVerified } from '../../test/support/verify.ts'
import type { BenchContext } from '../bench.ts'
import { withLogOf } from '../database.ts'

/**
 * Verifies the whole log: its seals, its invariants and every read table.
 * @param sealKey in base64, as in the settings
 */
export const verify = async ({ print }: BenchContext, database: string, sealKey: string): Promise<void> => {
  const startedMs = performance.now()
  const { events, groups, seals } = await withLogOf(database, ({ pool, log }) =>
    assertVerified({ pool, log, sealKey: Buffer.from(sealKey, 'base64') }, { timeoutMs: 120_000 }),
  )
  const rows = groups.reduce((sum, group) => sum + group.rows, 0)
  print(
    `\nverified in ${((performance.now() - startedMs) / 1000).toFixed(1)} s, nothing is wrong: ${events} events in ${seals.seals} seals (${seals.unsealed} not sealed yet), ${rows} rows of read tables`,
  )
}

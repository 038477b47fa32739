import assert from 'node:assert/strict'
import type pg from 'pg'
import { groups as allGroups } from '../../projections/groups.ts'
import type { VerifyResult } from '../../src/audit/checks/checks.ts'
import { findingText } from '../../src/audit/checks/finding.ts'
import { sealKeyOf } from '../../src/audit/seals/seals-file.ts'
import { verifyLog } from '../../src/audit/verify.ts'
import { newId } from '../../src/kernel/ids.ts'
import type { EventLog } from '../../src/platform/eventstore/port.ts'
import { readCheckpoint } from '../../src/platform/projections/checkpoint.ts'
import { until } from './until.ts'

/**
 * Runs the verification that finance runs and asserts that nothing is wrong. It waits until the projections have passed
 * the head of the log as it is now; more may be appended meanwhile.
 */
export const assertVerified = async (
  { pool, log, sealKey }: { readonly pool: pg.Pool; readonly log: EventLog; readonly sealKey?: Uint8Array },
  { groups = allGroups, timeoutMs = 30_000, logInPostgres = true } = {},
): Promise<VerifyResult> => {
  const head = await log.head()
  for (const { name } of groups)
    await until(async () => ((await readCheckpoint(pool, name))?.position ?? 0) >= head, {
      timeoutMs,
      what: `group ${name} passing ${head}`,
    })
  const result = await verifyLog(
    { pool, log, groups, logInPostgres },
    { runId: newId('vrf'), publicKey: sealKey ? sealKeyOf(sealKey).publicKey : '', exported: null },
  )
  assert.deepEqual(result.findings.map(findingText), [])
  return result
}

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { TestContext } from 'node:test'
import { groups } from '../../projections/groups.ts'
import type { VerifyResult } from '../../src/audit/checks/checks.ts'
import { findingText } from '../../src/audit/checks/finding.ts'
import { sealKeyOf } from '../../src/audit/seals/seals-file.ts'
import { verifyLog } from '../../src/audit/verify.ts'
import { createPool } from '../../src/platform/postgres/pool.ts'
import { openLog } from '../platform/eventstore/open-postgres.ts'

/** Verifies the whole log and every read table of a database, and sees that nothing is wrong. */
export const assertVerified = async (
  t: TestContext,
  { url, sealKey }: { readonly url: string; readonly sealKey: string },
): Promise<VerifyResult> => {
  const pool = createPool({ url, applicationName: 'farebox-verify' })
  t.after(() => pool.end())
  const log = await openLog(url)
  t.after(() => log.close())
  const { publicKey } = sealKeyOf(Buffer.from(sealKey, 'base64'))
  const result = await verifyLog(
    { pool, log, groups, logInPostgres: true },
    { runId: randomUUID(), publicKey, exported: null },
  )
  assert.deepEqual(result.findings.map(findingText), [])
  return result
}

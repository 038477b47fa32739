import { groups } from '../../projections/groups.ts'
import { verifyLog } from '../../src/audit/verify.ts'
import { newId } from '../../src/kernel/ids.ts'
import { limitMemory } from '../../src/platform/cli/limit-memory.ts'
import { openPostgresLog } from '../../src/platform/eventstore/postgres/log.ts'
import { clientConfig, createPool } from '../../src/platform/postgres/pool.ts'

/** Verifies one log in a process of its own, as the command does, so that its memory is its alone: `verify-process.ts <url> <public key>`. */
const [url = '', publicKey = ''] = process.argv.slice(2)
limitMemory()
const settings = { url, applicationName: 'farebox-bench-verify', statementTimeoutMs: 0 }
const pool = createPool(settings)
const log = openPostgresLog({ pool, connection: clientConfig(settings) })
const startedMs = performance.now()
const result = await verifyLog(
  { pool, log, groups, logInPostgres: true },
  { runId: newId('vrf'), publicKey, exported: null },
)
const ms = performance.now() - startedMs
const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage()
await log.close()
await pool.end()
process.stdout.write(
  JSON.stringify({
    ms,
    cpuMs: (userCPUTime + systemCPUTime) / 1000,
    peakMib: maxRSS / 1024,
    events: result.events,
    rows: result.groups.reduce((sum, { rows }) => sum + rows, 0),
    unsealed: result.seals.unsealed,
    findings: result.findings.slice(0, 3),
  }),
)

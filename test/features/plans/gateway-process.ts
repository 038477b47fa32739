import { createMeter } from '../../../src/features/plans/meter-traffic.ts'
import type { PlanId } from '../../../src/kernel/ids.ts'
import { createLogger } from '../../../src/platform/http/logging.ts'
import { createPool } from '../../../src/platform/postgres/pool.ts'
import { runnerOver } from '../../platform/commands/purse.ts'
import { openLog } from '../../platform/eventstore/open-postgres.ts'
import { batchOf } from './traffic.ts'

/**
 * A gateway that sends its batches one after another and reports the answered ones, until it is killed or
 * done.
 */
const [url = '', reporter = '', first = '', last = '', plans = ''] = process.argv.slice(2)
const planIds = plans.split(',') as PlanId[]
const pool = createPool({ url, applicationName: 'gateway-process' })
const log = await openLog(url)
const runner = runnerOver(log)
const meter = createMeter({ pool, runner, clock: Date.now, logger: createLogger('fatal') })
for (let sequence = Number(first); sequence <= Number(last); sequence += 1) {
  await meter.report({ reporter, sequence, traffic: batchOf(reporter, sequence, planIds) })
  process.stdout.write(`${sequence}\n`)
}
await runner.close()
await log.close()
await pool.end()

import { pino } from 'pino'
import { startEnqueuer } from '../../../src/features/webhooks/start-webhooks.ts'
import { openPostgresLog } from '../../../src/platform/eventstore/postgres/log.ts'
import { clientConfig, createPool } from '../../../src/platform/postgres/pool.ts'
import { testScheduler } from '../../support/scheduler.ts'

/**
 * The enqueuing process, alone, for stopping it: `node reactor-process.ts URL ANSWER_TIMEOUT_MS`. It reports
 * each enqueued delivery and each failure.
 */
const [url = '', answerTimeoutMs] = process.argv.slice(2)
const settings = { url, applicationName: 'farebox-test-process' }
const pool = createPool(settings)
startEnqueuer({
  scheduler: testScheduler({ pool }),
  pool,
  log: openPostgresLog({ pool, connection: clientConfig(settings) }),
  clock: Date.now,
  logger: pino({ level: 'error' }, { write: () => void process.send?.('failed') }),
  onEnqueued: () => void process.send?.('enqueued'),
  answerTimeoutMs: Number(answerTimeoutMs),
})

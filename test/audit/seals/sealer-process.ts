import pino from 'pino'
import { startSealer } from '../../../src/audit/seals/sealer.ts'
import { createBackgroundScheduler } from '../../../src/platform/commands/background-scheduler.ts'
import { createPool } from '../../../src/platform/postgres/pool.ts'
import { createLogFeed } from '../../../src/platform/projections/feed.ts'
import { codec, runnerOver } from '../../platform/commands/world.ts'
import { openLog } from '../../platform/eventstore/open-postgres.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { testKey } from '../world.ts'

/** A sealer alone, to be stopped: `node sealer-process.ts URL EVENTS ANSWER_TIMEOUT_MS` seals after so many events. */
const [url = '', events, answerTimeoutMs] = process.argv.slice(2)
const log = await openLog(url)
const pool = createPool({ url, applicationName: 'farebox-test-process' })
startSealer({
  scheduler: testScheduler({ pool }),
  pool,
  log,
  feed: createLogFeed({ log, decode: codec.decode, onError: () => undefined }),
  runner: runnerOver(log),
  key: testKey(),
  clock: Date.now,
  backgroundScheduler: createBackgroundScheduler(),
  logger: pino({ level: 'silent' }),
  every: { events: Number(events), seconds: 60 },
  answerTimeoutMs: Number(answerTimeoutMs),
})

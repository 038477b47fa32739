import { pino } from 'pino'
import { createLogFeed } from '../../projections/engine/feed.ts'
import { createProjectionRunner } from '../../projections/engine/runner.ts'
import { createCodec } from '../../src/eventstore/codec.ts'
import { openPostgresLog } from '../../src/eventstore/postgres/log.ts'
import { clientConfig, createPool } from '../../src/postgres/pool.ts'
import { both } from './tally.ts'

/** A process that folds, to be killed: `node runner-process.ts URL [POINT PASS]` dies at the n-th pass of a point. */
const [url = '', point, pass] = process.argv.slice(2)
const settings = { url, applicationName: 'farebox-test-process' }
const pool = createPool(settings)
const log = await openPostgresLog({ pool, connection: clientConfig(settings) })
const { decode } = createCodec()
const feed = createLogFeed({ log, decode, onError: () => undefined })
let passes = 0
const runner = createProjectionRunner({
  pool,
  log,
  feed,
  decode,
  groups: [both],
  logger: pino({ level: 'silent' }),
  clock: Date.now,
  maxBatch: 10,
  onState: ({ state }) => process.send?.(state),
  onPoint: (passed) => {
    if (passed !== point) return
    passes += 1
    if (passes === Number(pass)) process.kill(process.pid, 'SIGKILL')
  },
})
await runner.start()

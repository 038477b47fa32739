import { parseArgs } from 'node:util'
import { pino } from 'pino'
import { createCodec } from '../../../src/platform/eventstore/codec.ts'
import { openPostgresLog } from '../../../src/platform/eventstore/postgres/log.ts'
import { clientConfig, createPool } from '../../../src/platform/postgres/pool.ts'
import { createLogFeed } from '../../../src/platform/projections/feed.ts'
import { createProjectionRunner } from '../../../src/platform/projections/projection-runner.ts'
import { both } from './tally.ts'

/**
 * A projecting process, for killing or stopping it: `node runner-process.ts URL [--point P --pass N]` ends at
 * the n-th pass of a point. `--answer-timeout-ms` bounds the silence on its sessions.
 */
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    point: { type: 'string' },
    pass: { type: 'string' },
    'answer-timeout-ms': { type: 'string' },
  },
})
const [url = ''] = positionals
const answerTimeoutMs = values['answer-timeout-ms']
const settings = { url, applicationName: 'farebox-test-process' }
const pool = createPool(settings)
const log = openPostgresLog({ pool, connection: clientConfig(settings) })
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
  ...(answerTimeoutMs !== undefined && { answerTimeoutMs: Number(answerTimeoutMs) }),
  onState: ({ state }) => process.send?.(state),
  onPoint: (passed) => {
    if (passed !== values.point) return
    passes += 1
    if (passes === Number(values.pass)) process.kill(process.pid, 'SIGKILL')
  },
})
await runner.start()

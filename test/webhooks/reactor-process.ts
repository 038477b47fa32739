import { pino } from 'pino'
import { createLogFeed } from '../../projections/engine/feed.ts'
import { startWebhookReactor } from '../../src/outbound/webhooks/reactor/run.ts'
import { createCodec } from '../../src/platform/eventstore/codec.ts'
import { openPostgresLog } from '../../src/platform/eventstore/postgres/log.ts'
import { clientConfig, createPool } from '../../src/platform/postgres/pool.ts'

/**
 * A webhook reactor alone, to be stopped: `node reactor-process.ts URL ANSWER_TIMEOUT_MS`. It tells each position that it
 * has come to.
 */
const [url = '', answerTimeoutMs] = process.argv.slice(2)
const settings = { url, applicationName: 'farebox-test-process' }
const pool = createPool(settings)
const log = await openPostgresLog({ pool, connection: clientConfig(settings) })
const { decode } = createCodec()
startWebhookReactor({
  pool,
  log,
  feed: createLogFeed({ log, decode, onError: () => undefined }),
  clock: Date.now,
  logger: pino({ level: 'silent' }),
  progress: {
    advance: (position) => void process.send?.(position),
    forget: () => void process.send?.('gone'),
    reached: async () => false,
  },
  onQueued: () => undefined,
  answerTimeoutMs: Number(answerTimeoutMs),
})

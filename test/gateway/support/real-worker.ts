import type { TestContext } from 'node:test'
import type { Logger } from 'pino'
import { type Dispatcher, fetch, ProxyAgent, type Response, Socks5ProxyAgent } from 'undici'
import { readConfig } from '../../../src/app/config.ts'
import { type GatewayWorker, openGatewayWorker } from '../../../src/app/gateway-process.ts'
import type { Clock } from '../../../src/kernel/clock.ts'
import { createLogger } from '../../../src/platform/http/logging.ts'
import { atEnd } from '../../support/cleanup.ts'
import type { TestApp } from '../../support/test-app.ts'

type Parts = {
  readonly clock?: Clock
  readonly monotonicMs?: () => number
  readonly logger?: Logger
}

/**
 * A gateway worker as `npm start` runs it, but inside this process: with real sockets, on the database of the
 * service, and by the clocks of the test. It listens on its own port.
 */
export const startRealWorker = async (
  t: TestContext,
  { env }: Pick<TestApp, 'env'>,
  settings: Readonly<Record<string, string>> = {},
  { clock = Date.now, monotonicMs = () => performance.now(), logger = createLogger('fatal') }: Parts = {},
): Promise<GatewayWorker> => {
  const config = readConfig({
    ...env,
    FAREBOX_GATEWAY_PORT: '0',
    FAREBOX_GATEWAY_WORKERS: '1',
    FAREBOX_SHUTDOWN_TIMEOUT_MS: '100',
    ...settings,
  })
  const worker = await openGatewayWorker({
    config: {
      ...config,
      get clockOffsetMs() {
        return clock() - Date.now()
      },
    },
    index: 0,
    systemClock: Date.now,
    monotonicMs,
    random: Math.random,
    logger,
  })
  atEnd(t, () => worker.close())
  return worker
}

/**
 * One request through a line such as `http://user:pass@host:port` or `socks5h://…`, over a separate connection; HTTP by
 * CONNECT, unless `tunnel` is false.
 */
export const through = async <Answer>(
  line: string,
  url: string,
  read: (response: Response) => Promise<Answer>,
  tunnel = true,
): Promise<Answer> => {
  const agent: Dispatcher = line.startsWith('socks5')
    ? new Socks5ProxyAgent(line.replace('socks5h:', 'socks5:'))
    : new ProxyAgent({ uri: line, proxyTunnel: tunnel })
  try {
    return await read(await fetch(url, { dispatcher: agent }))
  } finally {
    await agent.destroy()
  }
}

/** The sandbox's record of a request's exit. */
export type Whoami = {
  readonly exit: string | null
  readonly country: string | null
  readonly carrier: string | null
  readonly ip: string
}

export const whoami = (line: string): Promise<Whoami> =>
  through(line, 'http://whoami.sandbox/', async (response) => (await response.json()) as Whoami)

import type { Config } from '../../src/app/config.ts'
import { openFarebox } from '../../src/app/start.ts'
import type { Clock } from '../../src/kernel/clock.ts'
import { CliRefusal } from '../../src/platform/cli/output.ts'
import { createLogger } from '../../src/platform/http/logging.ts'
import { createPool } from '../../src/platform/postgres/pool.ts'
import { fillHistory, type HistoryRequest, type HistoryStep } from './fill.ts'
import { createHistoryClock, dayMs } from './rhythm.ts'

export type HistoryResult = HistoryRequest & {
  readonly from: string
  readonly to: string
  readonly accounts: number
  readonly orders: number
  readonly events: number
  readonly seconds: number
}

/** Settings of a server that only the history uses: a free loopback port, no rate limits. */
const settingsFor = (config: Config): Config => ({
  ...config,
  host: '127.0.0.1',
  port: 0,
  metricsPort: null,
  rates: null,
  trustedProxies: null,
  payments: { ...config.payments, publicUrl: null },
})

/**
 * Opens a Farebox on an empty log with a past clock, creates the demo, and simulates the days until now.
 * @param systemClock milliseconds since the epoch; the end of the history unless `endMs` is set
 * @throws CliRefusal if another process created the demo meanwhile; the errors of `openFarebox`
 */
export const tellHistory = async (
  config: Config,
  systemClock: Clock,
  settings: HistoryRequest,
  options: { readonly onStep: (step: HistoryStep) => void; readonly endMs?: number },
): Promise<HistoryResult> => {
  const startedMs = performance.now()
  const endMs = options.endMs ?? systemClock()
  const clock = createHistoryClock(Math.floor(endMs / dayMs) * dayMs - settings.days * dayMs, endMs)
  const farebox = await openFarebox({
    config: settingsFor(config),
    roles: ['http', 'projections'],
    systemClock,
    clock: clock.read,
    monotonicMs: () => performance.now(),
    logger: createLogger('error', { write: (line) => void process.stderr.write(line) }),
    kill: () => undefined,
  })
  try {
    const { demo, baseUrl, core } = farebox
    if (!demo?.fresh || baseUrl === null)
      throw new CliRefusal('has_history', 'another process made the demo meanwhile: nothing was added to it')
    const { auditorUrl, pool } = core
    const auditorPool =
      auditorUrl === null ? pool : createPool({ url: auditorUrl, applicationName: 'farebox-history' })
    const totals = await fillHistory(
      { ...farebox, baseUrl, auditorPool },
      demo.demo,
      clock,
      settings,
      options.onStep,
    ).finally(async () => {
      if (auditorPool !== pool) await auditorPool.end()
    })
    const { days, customers, seed } = settings
    return {
      days,
      customers,
      seed,
      ...totals,
      from: new Date(clock.firstMs).toISOString(),
      to: new Date(endMs).toISOString(),
      events: await core.log.head(),
      seconds: Math.round((performance.now() - startedMs) / 100) / 10,
    }
  } finally {
    await farebox.close()
  }
}

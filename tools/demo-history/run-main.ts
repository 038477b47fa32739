import type { Config } from '../../src/app/config.ts'
import type { BareContext } from '../../src/platform/cli/cli-context.ts'
import { CliMisuse, type CliOutput, CliRefusal, fields } from '../../src/platform/cli/output.ts'
import { stepsOf, withProgress } from '../../src/platform/cli/progress-bar.ts'
import type { HistoryRequest } from './fill.ts'
import { tellHistory } from './run.ts'

/** @throws CliMisuse unless the settings are those of a demo */
const assertDemo = (config: Config): void => {
  if (!config.demo)
    throw new CliMisuse('FAREBOX_DEMO is off: a history is only made for the demo', {}, 'no_demo')
  if (config.payments.sandbox === null || config.payments.sandbox.url !== null)
    throw new CliMisuse(
      'payments of a history go to a sandbox of its own: leave out the credentials of payment providers, FAREBOX_SANDBOX and FAREBOX_SANDBOX_URL',
      {},
      'no_demo',
    )
  if (config.scrapers.providers.length > 0)
    throw new CliMisuse(
      'scrapers of a history call the sandbox: leave out the keys of real providers',
      {},
      'no_demo',
    )
  if (config.eventStoreUrl !== null)
    throw new CliMisuse(
      'a history is written into the log in Postgres: leave out EVENTSTORE_URL',
      {},
      'no_demo',
    )
  if (config.clockOffsetMs !== 0)
    throw new CliMisuse('a history has a clock of its own: leave out FAREBOX_CLOCK_OFFSET_MS', {}, 'no_demo')
}

/** Runs `demo history`. */
export const makeHistory = async (
  { readSettings, open }: BareContext<Config>,
  request: HistoryRequest,
): Promise<CliOutput> => {
  const config = await readSettings()
  assertDemo(config)
  const { context, close } = await open({ makes: true })
  try {
    const events = await context.log.head()
    if (events > 0)
      throw new CliRefusal(
        'has_history',
        `the log here holds ${events} events already, and a past cannot come after them: name an empty place, such as FAREBOX_DATA=.farebox-year`,
        { events },
      )
  } finally {
    await close()
  }
  return withProgress(async (bar) => {
    let showStep: ReturnType<typeof stepsOf> | null = null
    const result = await tellHistory(config, context.clock, request, {
      onStep: ({ done, total, events }) => {
        showStep ??= stepsOf(bar, 'history', total)
        showStep(done, events)
      },
    })
    return { json: result, text: `${fields(result)}\n\nnpm start with the same settings continues from here` }
  })
}

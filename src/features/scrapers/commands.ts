import type { BareContext, CliContext, CliSettings } from '../../platform/cli/cli-context.ts'
import { bareCommand, type Register, withContext } from '../../platform/cli/command.ts'
import { argument, option } from '../../platform/cli/input.ts'
import type { ScraperAccess } from './run-scraper.ts'

const runs = () => import('./run-scraper.ts')

const listInput = {
  platform: option('<name>', 'only scrapers of one platform'),
  search: option('<words>', 'only scrapers with each word in name, description or a field of the answer'),
  field: option('<name>', 'only scrapers with such a field in their answer, such as email or author.name'),
  maxPrice: option('<dollars>', 'only scrapers that cost at most this a call, such as 0.005'),
}
const scraper = argument('<scraper>', 'e.g. tiktok/profile')
const columns = {
  scraper: 'name',
  price: 'price',
  state: 'state',
  calls: 'calls',
  good: 'good',
  p50: 'p50',
  p95: 'p95',
  'last good call': 'lastGoodAt',
} as const

/**
 * `scrapers list|health|show|try`: the scrapers, their health, and a call that no customer pays.
 * @param accessOf which providers a server with these settings has
 */
export const scrapersCommands = <Settings extends CliSettings>(
  accessOf: (settings: Settings, context: CliContext) => Promise<ScraperAccess>,
): readonly Register<Settings>[] => {
  const opened =
    <Input, Output>(
      load: () => Promise<(access: ScraperAccess, context: CliContext, input: Input) => Promise<Output>>,
    ) =>
    async () => {
      const work = await load()
      return async (bare: BareContext<Settings>, input: Input): Promise<Output> => {
        const settings = await bare.readSettings()
        return withContext(bare, async (context) => work(await accessOf(settings, context), context, input))
      }
    }
  return [
    bareCommand({
      name: 'scrapers list',
      about: 'list the scrapers with price, state and the results of the last 24 hours',
      input: listInput,
      columns,
      run: opened(async () => (await runs()).list),
    }),
    bareCommand({
      name: 'scrapers health',
      about: 'the same list, only scrapers that were called in the last 24 hours',
      input: listInput,
      columns,
      empty: 'no scraper was called in the last 24 hours',
      run: opened(async () => (await runs()).health),
    }),
    bareCommand({
      name: 'scrapers show',
      about: 'show one scraper with its fields, those of its answer, and with --json a sample answer',
      input: { scraper },
      run: opened(async () => (await runs()).show),
    }),
    bareCommand({
      name: 'scrapers try',
      about: 'call the provider as a customer would: no wallet pays, but the provider may charge you',
      input: { scraper, input: option('<json>', "the fields; default: the scraper's example") },
      run: opened(async () => (await runs()).tryOut),
    }),
  ]
}

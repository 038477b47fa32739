import type { Command } from 'commander'
import type { Cli, CliContext, CliSettings } from '../../platform/cli/cli-context.ts'
import type { CliOutput } from '../../platform/cli/output.ts'
import type { ScraperAccess } from './run-scraper.ts'

/** Loaded when a command runs. */
const runs = () => import('./run-scraper.ts')

/**
 * `scrapers list|health|show|try`: the scrapers, their health, and a call that no customer pays.
 * @param accessOf which providers a server with these settings has
 */
export const scrapersCommands =
  <Settings extends CliSettings>(
    accessOf: (settings: Settings, context: CliContext) => Promise<ScraperAccess>,
  ) =>
  (program: Command, cli: Cli<Settings>): void => {
    const group = program.command('scrapers')
    const opened = <Arguments extends readonly unknown[]>(
      load: () => Promise<
        (access: ScraperAccess, context: CliContext, ...cliArguments: Arguments) => Promise<CliOutput>
      >,
    ) =>
      cli.openingAction(async () => {
        const work = await load()
        return async (config, open, ...cliArguments: Arguments) => {
          const { context, close } = await open()
          try {
            return await work(await accessOf(config, context), context, ...cliArguments)
          } finally {
            await close()
          }
        }
      })

    group
      .command('list')
      .description('list the scrapers with price, state and how they did in the last 24 hours')
      .option('--platform <name>', 'only those of one platform')
      .action(opened(async () => (await runs()).list))
    group
      .command('health')
      .description('the same of those that were called in the last 24 hours')
      .option('--platform <name>', 'only those of one platform')
      .action(opened(async () => (await runs()).health))
    group
      .command('show')
      .description('show one scraper with its fields')
      .argument('<scraper>', 'e.g. tiktok/profile')
      .action(opened(async () => (await runs()).show))
    group
      .command('try')
      .description(
        'ask the provider as a call would: no wallet pays, but the provider may charge your account there',
      )
      .argument('<scraper>', 'e.g. tiktok/profile')
      .option('--input <json>', 'the fields; the example of the scraper when left out')
      .action(opened(async () => (await runs()).tryOut))
  }

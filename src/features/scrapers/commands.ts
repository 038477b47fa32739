import type { Command } from 'commander'
import type { Cli, CliContext, CliSettings } from '../../platform/cli/cli-context.ts'
import type { CliOutput } from '../../platform/cli/output.ts'
import type { ScraperAccess } from './run-scraper.ts'

/** Read when one of its commands runs: it needs what a server needs, and most commands do not. */
const importScraperRunner = () => import('./run-scraper.ts')

/**
 * `scrapers list|health|show|try`: what is sold, how it does, and a call that no customer pays.
 * @param accessOf which providers a server with these settings has
 */
export const scrapersCommands =
  <Settings extends CliSettings>(
    accessOf: (settings: Settings, context: CliContext) => Promise<ScraperAccess>,
  ) =>
  (program: Command, cli: Cli<Settings>): void => {
    const group = program.command('scrapers')
    const opened = <Arguments extends readonly unknown[]>(
      work: (access: ScraperAccess, context: CliContext, ...given: Arguments) => Promise<CliOutput>,
    ) =>
      cli.openingAction(async (config, open, ...given: Arguments) => {
        const { context, close } = await open()
        try {
          return await work(await accessOf(config, context), context, ...given)
        } finally {
          await close()
        }
      })

    group
      .command('list')
      .description('list the scrapers with price, state and how they did in the last 24 hours')
      .option('--platform <name>', 'only those of one platform')
      .action(
        opened(async (access, context, options: { platform?: string }) =>
          (await importScraperRunner()).list(access, context, { ...options, health: false }),
        ),
      )
    group
      .command('health')
      .description('the same of those that were called in the last 24 hours')
      .option('--platform <name>', 'only those of one platform')
      .action(
        opened(async (access, context, options: { platform?: string }) =>
          (await importScraperRunner()).list(access, context, { ...options, health: true }),
        ),
      )
    group
      .command('show')
      .description('show one scraper with its fields')
      .argument('<scraper>', 'e.g. tiktok/profile')
      .action(
        opened(async (access, context, name: string) =>
          (await importScraperRunner()).show(access, context, name),
        ),
      )
    group
      .command('try')
      .description(
        'ask the provider as a call would: no wallet pays, but the provider may charge your account there',
      )
      .argument('<scraper>', 'e.g. tiktok/profile')
      .option('--input <json>', 'the fields; the example of the scraper when left out')
      .action(
        opened(async (access, context, name: string, options: { input?: string }) =>
          (await importScraperRunner()).tryOut(access, context, name, options),
        ),
      )
  }

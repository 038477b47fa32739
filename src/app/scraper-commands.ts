import type { Command } from 'commander'
import type { Cli, CliContext } from '../platform/cli/cli-context.ts'
import type { CliOutput } from '../platform/cli/output.ts'
import type { Config } from './config.ts'

/** Read when one of its commands runs: it needs what a server needs, and most commands do not. */
const importScraperRunner = () => import('./run-scraper.ts')

/** `scrapers list|health|show|try`: what is sold, how it does, and a call that no customer pays. */
export const registerScrapers = (program: Command, cli: Cli<Config>): void => {
  const group = program.command('scrapers').description('the scrapers: prices, health, and a call to try one')
  const opened = <Arguments extends readonly unknown[]>(
    work: (config: Config, context: CliContext, ...given: Arguments) => Promise<CliOutput>,
  ) =>
    cli.openingAction(async (config, open, ...given: Arguments) => {
      const { context, close } = await open()
      try {
        return await work(config, context, ...given)
      } finally {
        await close()
      }
    })

  group
    .command('list')
    .description('list the scrapers with price, state and how they did in the last 24 hours')
    .option('--platform <name>', 'only those of one platform')
    .action(
      opened(async (config, context, options: { platform?: string }) =>
        (await importScraperRunner()).list(config, context, { ...options, health: false }),
      ),
    )
  group
    .command('health')
    .description('the same of those that were called in the last 24 hours')
    .option('--platform <name>', 'only those of one platform')
    .action(
      opened(async (config, context, options: { platform?: string }) =>
        (await importScraperRunner()).list(config, context, { ...options, health: true }),
      ),
    )
  group
    .command('show')
    .description('show one scraper with its fields')
    .argument('<scraper>', 'e.g. tiktok/profile')
    .action(
      opened(async (config, context, name: string) =>
        (await importScraperRunner()).show(config, context, name),
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
      opened(async (config, context, name: string, options: { input?: string }) =>
        (await importScraperRunner()).tryOut(config, context, name, options),
      ),
    )
}

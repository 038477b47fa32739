import type { Command } from 'commander'
import { type Cli, wholeNumber } from '../platform/cli/cli-context.ts'

/** The implementations, loaded when a command runs. */
const loadImplementation = () => import('./run-work-commands.ts')

/** A literal, because importing the list of queues loads all features. */
const names =
  'webhooks, payment-callbacks, messages, deposit-looks, dispute-looks, scrape-batches, webhook-enqueue-retries'

/** `work queues|dead|retry`: lists waiting items and dead items, and retries dead ones. */
export const registerWork = (program: Command, cli: Cli): void => {
  const work = program.command('work')
  work
    .command('queues')
    .description('list the queues: what waits, what is due and since when, what was given up')
    .action(cli.action(async () => (await loadImplementation()).listQueues))
  work
    .command('dead')
    .description('list what a queue has given up, the latest first')
    .requiredOption('--queue <name>', `one of ${names}`)
    .option('--limit <n>', 'how many at most', wholeNumber(1, 1_000), 100)
    .action(cli.action(async () => (await loadImplementation()).dead))
  work
    .command('retry')
    .description('try again what a queue has given up, from now on and with all its attempts')
    .requiredOption('--queue <name>', `one of ${names}`)
    .option('--item <id...>', 'items as "work dead" lists them')
    .option('--all', 'everything that was given up, of webhooks the oldest 1000')
    .action(cli.action(async () => (await loadImplementation()).retry))
}

import type { Command } from 'commander'
import type { Cli } from '../platform/cli/cli-context.ts'
import type { Config } from './config.ts'
import { registerWorkers } from './workers-command.ts'

/** The implementations, loaded when a command runs. */
const loadImplementation = () => import('./run-list-commands.ts')

/** `routes`, `workers` and `events`: the routes of a server, its background workers, and its event types. */
export const registerLists = (program: Command, cli: Cli<Config>): void => {
  program
    .command('routes')
    .option('--api', 'only the operations of the interface description')
    .action(cli.bareAction(async () => (await loadImplementation()).routes(cli.clock)))

  registerWorkers(program, cli)

  program
    .command('events')
    .addHelpText('after', '\n"ledger events" prints their fields, as a page or as JSON Schema.')
    .action(cli.bareAction(async () => (await loadImplementation()).events))
}

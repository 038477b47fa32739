import type { Command } from 'commander'
import type { Cli } from '../platform/cli/cli-context.ts'

/** The implementation, loaded when the command runs. */
const loadImplementation = () => import('./run-workers-command.ts')

/** `workers`: the background workers of all processes and their last runs. */
export const registerWorkers = (program: Command, cli: Cli): void => {
  program
    .command('workers')
    .addHelpText(
      'after',
      `
A worker runs once per server, gateway or free-list process, or in one process of the cluster at a time.
PROCESSES counts those that run it now. The times are as new as the last report of a process: a minute
at most, a second when a worker begins to fail or works again.

Example: which workers failed in their last run
  npx farebox workers --json | jq '.workers[] | select(.lastRun.succeeded == false) | {name, lastError}'`,
    )
    .action(cli.action(async () => (await loadImplementation()).listWorkers))
}

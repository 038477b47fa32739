import type { Command } from 'commander'
import type { Cli } from '../../platform/cli/cli-context.ts'

/** Loaded when a command runs. */
const runs = () => import('./run-commands.ts')

/** `exits import|list|check|drain|remove`. */
export const registerExits = (program: Command, cli: Cli): void => {
  const exits = program.command('exits')

  exits
    .command('import')
    .description(
      'add and change exits from a file of JSON lines; exits that it does not name stay as they are',
    )
    .argument('<file>', 'one exit a line: docs/gateway.md has every kind')
    .option('--dry-run', 'only check the file')
    .action(cli.action(async () => (await runs()).importFile))

  exits
    .command('list')
    .description('list the exits, as the log has them now')
    .option('--country <code>', 'only exits of this country, e.g. us')
    .action(cli.action(async () => (await runs()).list))

  exits
    .command('check')
    .description('Probe exits from this machine, without sending traffic through them.')
    .argument('[ids...]', 'left out: all of them')
    .action(cli.action(async () => (await runs()).check))

  exits
    .command('drain')
    .description('Drain exits: no new connections; existing ones finish.')
    .argument('<ids...>', 'exits')
    .option('--undo', 'let them serve again')
    .action(cli.action(async () => (await runs()).drain))

  exits
    .command('remove')
    .description('take exits out; an import of the same id brings one back')
    .argument('<ids...>', 'exits')
    .action(cli.action(async () => (await runs()).remove))
}

export const commands = [registerExits] as const

import { type Command, Option } from 'commander'
import type { Cli, CliSettings } from '../../platform/cli/cli-context.ts'
import type { CheckingConfig } from './settings.ts'
import { feedFormats } from './settings.ts'

/** Loaded when a command runs. */
const runs = () => import('./run-commands.ts')

/** `freelist sources|import|stats`. */
export const registerFreelist = (program: Command, cli: Cli<CheckingConfig & CliSettings>): void => {
  const freelist = program.command('freelist')

  freelist
    .command('sources')
    .description('list the feeds with how each went when it was read last')
    .action(cli.openingAction(async () => (await runs()).sources))

  freelist
    .command('import')
    .description('put the candidates of a file on record; the checker checks them before anything is listed')
    .argument('<file>', 'lines of ip:port, or JSON as feeds have it')
    .addOption(new Option('--format <format>', 'how it is written').choices(feedFormats).default('text'))
    .option('--dry-run', 'only read the file')
    .action(cli.openingAction(async () => (await runs()).importFile))

  freelist
    .command('stats')
    .description('count the record: states, protocols, anonymity, and what checks found last')
    .action(cli.action(async () => (await runs()).stats))
}

export const commands = [registerFreelist] as const

import type { Command } from 'commander'
import type { Cli } from '../../platform/cli/cli-context.ts'

/** Imported lazily, when a command runs. */
const runs = () => import('./run-commands.ts')

/** `catalog import FILE`, `catalog check FILE` and `catalog set-state PRODUCT STATE`. */
export const registerCatalog = (program: Command, cli: Cli): void => {
  const catalog = program.command('catalog')

  catalog
    .command('import')
    .description('check a catalogue file as a whole and make it the catalogue')
    .argument('<file>', 'a file as docs/catalog.md explains')
    .action(cli.action(async () => (await runs()).importFile))

  catalog
    .command('check')
    .description('check a catalogue file, also against the catalogue that stands, and change nothing')
    .argument('<file>', 'a file as docs/catalog.md explains')
    .action(cli.action(async () => (await runs()).checkFile))

  catalog
    .command('set-state')
    .description('park, retire or reactivate one product between imports')
    .argument('<product>', 'the id of a product')
    .argument('<state>', 'active, parked or retired')
    .option('--successor <id>', 'the product to buy instead; required with retired')
    .action(cli.action(async () => (await runs()).setState))
}

export const commands = [registerCatalog] as const

import { type Command, InvalidArgumentError } from 'commander'
import { type Cli, wholeNumber } from '../../platform/cli/cli-context.ts'
import { maxCents, parseReference } from '../wallet/for-commands.ts'

/** The work of the commands, loaded when one of them runs. */
const runs = () => import('./run-commands.ts')

const limitOf = (text: string): number | null => {
  if (text === 'off') return null
  if (/^\d+$/.test(text)) return wholeNumber(0, maxCents)(text)
  throw new InvalidArgumentError(`It must be whole cents from 0 to ${maxCents}, or off.`)
}

const noteOption = [
  '--note <text>',
  'why: it stands in the log for ever, name no person',
  parseReference,
] as const

/** `four-eyes show|set` and `proposals list|show|approve|decline|withdraw` */
export const registerProposals = (program: Command, cli: Cli): void => {
  const limitCommand = program.command('four-eyes')
  limitCommand
    .command('show')
    .description('show the limit as the log has it')
    .action(cli.action(async () => (await runs()).setting))
  limitCommand
    .command('set')
    .description(
      'set what one operator may move alone; it holds a minute later, and to allow more than before takes two as well',
    )
    .argument('<cents>', 'whole cents, 0 for every movement, or off', limitOf)
    .addHelpText(
      'after',
      `
Examples:
  npx farebox four-eyes set 10000
  npx farebox four-eyes set off`,
    )
    .action(cli.action(async () => (await runs()).set))

  const proposals = program.command('proposals')
  proposals
    .command('list')
    .description('list what waits for approval, newest first, as the read tables have it')
    .option('--all', 'what was approved, closed or is over, too')
    .option('--limit <n>', 'so many', wholeNumber(1, 1_000), 100)
    .action(cli.action(async () => (await runs()).list))
  proposals
    .command('show')
    .description('show one proposal as the log has it')
    .argument('<proposal>', 'its id')
    .action(cli.action(async () => (await runs()).show))
  proposals
    .command('approve')
    .description('approve what another operator proposed: it is carried out, once')
    .argument('<proposal>', 'its id')
    .addHelpText(
      'after',
      `
Where it cannot be carried out now, such as by a wallet that is short, nothing moves and it stays open.

Examples:
  npx farebox proposals list
  npx farebox proposals approve prp_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b`,
    )
    .action(cli.action(async () => (await runs()).approve))
  proposals
    .command('decline')
    .description('decline what another operator proposed')
    .argument('<proposal>', 'its id')
    .option(...noteOption)
    .action(cli.action(async () => (await runs()).decline))
  proposals
    .command('withdraw')
    .description('take back what you proposed')
    .argument('<proposal>', 'its id')
    .option(...noteOption)
    .action(cli.action(async () => (await runs()).withdraw))
}

export const commands = [registerProposals] as const

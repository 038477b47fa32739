import { type Command, InvalidArgumentError } from 'commander'
import { isEmail } from '../../kernel/formats.ts'
import { type Cli, wholeNumber } from '../../platform/cli/cli-context.ts'

/** Imported lazily, when a command runs. */
const runs = () => import('./run-account-commands.ts')

const email = (text: string): string => {
  if (isEmail(text)) return text
  throw new InvalidArgumentError('It must be an e-mail address.')
}

/** `accounts create|list|show|block|unblock` */
export const registerAccounts = (program: Command, cli: Cli): void => {
  const accounts = program.command('accounts')
  accounts
    .command('create')
    .description('create an account without keys and money')
    .requiredOption('--email <address>', 'the address; one account has it', email)
    .option('--reseller', 'the account sells on to customers of its own')
    .action(cli.action(async () => (await runs()).create))
  accounts
    .command('list')
    .description('list accounts with their e-mails, newest first')
    .option('--limit <n>', 'at most this many', wholeNumber(1, 1_000), 50)
    .option('--offset <n>', 'leave out the first ones', wholeNumber(0), 0)
    .action(cli.action(async () => (await runs()).listPage))
  accounts
    .command('show')
    .argument('<idOrEmail>', 'the id or the e-mail of the account')
    .description('show an account, its wallet and its keys as the log has them')
    .action(cli.action(async () => (await runs()).showAccount))
  accounts
    .command('block <accountId>')
    .description('let an account read only; money that was paid to it is still credited')
    .option('--reason <text>', 'stands in the log for ever: name no person', 'operator')
    .action(cli.action(async () => (await runs()).block))
  accounts
    .command('unblock <accountId>')
    .description('let a blocked account buy again')
    .action(cli.action(async () => (await runs()).unblock))
}

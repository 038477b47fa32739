import { type Command, InvalidArgumentError, Option } from 'commander'
import { staffRoles } from '../../domain/staff/roles.ts'
import { isEmail } from '../../kernel/formats.ts'
import { type Cli, groupCommand } from '../../platform/cli/cli-context.ts'

/** Loaded when a command runs. */
const runs = () => import('./run-commands.ts')

/** `accounts sign-in-link` */
export const registerSignInLinks = (program: Command, cli: Cli): void => {
  groupCommand(program, 'accounts')
    .command('sign-in-link')
    .argument('<idOrEmail>', 'the id or the e-mail of the account')
    .description('print a link that signs a person in to the console once, for whom no mail reaches')
    .addHelpText(
      'after',
      '\nExample:\n  npx farebox accounts sign-in-link acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --json',
    )
    .action(cli.action(async () => (await runs()).signInLink))
}

const email = (text: string): string => {
  if (isEmail(text)) return text
  throw new InvalidArgumentError('It must be an e-mail address.')
}

const roleOption = (): Option =>
  new Option('--role <role>', 'finance sees the books, operator runs the service').choices(staffRoles)

/** `staff grant|revoke|list|sign-in-link` */
export const registerStaff = (program: Command, cli: Cli): void => {
  const staff = program.command('staff')
  staff
    .command('grant')
    .description('give a role; who has no passkey yet gets a link that registers the first one')
    .requiredOption('--email <address>', 'the address of the person; a new one makes a new member', email)
    .addOption(roleOption().makeOptionMandatory())
    .addHelpText('after', '\nExample:\n  npx farebox staff grant --email ops@example.com --role operator')
    .action(cli.action(async () => (await runs()).grant))
  staff
    .command('revoke')
    .argument('<idOrEmail>', 'the id or the e-mail of the member')
    .description('take a role, or all of them; it holds from the next page on')
    .addOption(roleOption())
    .action(cli.action(async () => (await runs()).revoke))
  staff
    .command('list')
    .description('list members, their roles and passkeys')
    .action(cli.action(async () => (await runs()).list))
  staff
    .command('sign-in-link')
    .argument('<idOrEmail>', 'the id or the e-mail of the member')
    .description('print a link for a member who lost every passkey: it registers a new one')
    .action(cli.action(async () => (await runs()).staffSignInLink))
}

export const commands = [registerSignInLinks, registerStaff] as const

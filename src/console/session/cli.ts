import type { Command } from 'commander'
import type { AccountId } from '../../kernel/ids.ts'
import { createAccounts } from '../../market/accounts/service.ts'
import { accountOfEmail } from '../../market/accounts/vault.ts'
import type { Cli, CliContext } from '../../platform/cli/cli.ts'
import { groupCommand } from '../../platform/cli/group.ts'
import { CliMisuse, type CliOutput, CliRefusal } from '../../platform/cli/output.ts'
import { createPeople } from '../people/service.ts'
import { keptConsoleAddress } from './address.ts'
import { createLinks } from './links.ts'
import { printLink } from './printed-link.ts'

/** A sign-in link as a command prints it. */
export const linkFor = async (
  context: CliContext,
  subjectId: string,
): Promise<{ readonly url: string; readonly expiresAt: string }> => {
  const { config, pool } = context
  const origin = config.console.url ?? (await keptConsoleAddress(pool)) ?? `http://localhost:${config.port}`
  const deps = { people: createPeople(context), links: createLinks(context), clock: context.clock, origin }
  const made = await printLink(deps, subjectId, context)
  if (made.outcome === 'refused')
    throw new CliRefusal('no_role', 'this member of the staff has no role; "staff grant" gives one')
  return { url: made.url, expiresAt: made.expiresAt }
}

export const linkText = (url: string, expiresAt: string): string =>
  `${url}\n\nIt signs in once, in any browser, until ${expiresAt}. Hand it to its person alone.`

const signInLink = async (context: CliContext, idOrEmail: string): Promise<CliOutput> => {
  const accountId = idOrEmail.includes('@')
    ? await accountOfEmail(context.pool, idOrEmail)
    : (idOrEmail as AccountId)
  if (accountId === null || !(await createAccounts(context).read(accountId, context)))
    throw new CliMisuse('no account has this id or e-mail; "accounts list" shows them', {}, 'not_found')
  const link = await linkFor(context, accountId)
  return { json: { accountId, ...link }, text: linkText(link.url, link.expiresAt) }
}

/** `accounts sign-in-link` */
export const registerSignInLinks = (program: Command, cli: Cli): void => {
  groupCommand(program, 'accounts', 'create, list, show and block accounts')
    .command('sign-in-link')
    .argument('<idOrEmail>', 'the id or the e-mail of the account')
    .description('print a link that signs a person in to the console once, for whom no mail reaches')
    .addHelpText(
      'after',
      '\nExample:\n  npx farebox accounts sign-in-link acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --json',
    )
    .action(cli.action(signInLink))
}

import { type StaffRole, staffRoles } from '../../domain/staff/roles.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { type CliOutput, CliRefusal, notFound } from '../../platform/cli/output.ts'
import { createAccounts } from '../accounts/index.ts'
import { claimStaff, createPeople, findStaff, listStaff, type StaffMember } from './people.ts'
import { printLink, readConsoleAddress } from './printed-link.ts'
import { createLinks } from './sign-in-links.ts'

/** A sign-in link in a command's output. */
const linkFor = async (
  context: CliContext,
  subjectId: string,
): Promise<{ readonly url: string; readonly expiresAt: string }> => {
  const { config } = context
  const origin =
    config.console.url ?? (await readConsoleAddress(context)) ?? `http://localhost:${config.port}`
  const dependencies = {
    people: createPeople(context),
    links: createLinks(context),
    clock: context.clock,
    origin,
  }
  const linkResult = await printLink(dependencies, subjectId, context)
  if (linkResult.outcome === 'refused')
    throw new CliRefusal('no_role', 'this member of the staff has no role; "staff grant" gives one')
  return { url: linkResult.url, expiresAt: linkResult.expiresAt }
}

const linkText = (url: string, expiresAt: string): string =>
  `${url}\n\nIt signs in once, in any browser, until ${expiresAt}. Give it only to this person.`

type Person = { readonly idOrEmail: string }

export const signInLink = async (context: CliContext, { idOrEmail }: Person): Promise<CliOutput> => {
  const accounts = createAccounts(context)
  const accountId = idOrEmail.includes('@')
    ? ((await accounts.byEmail(idOrEmail, context))?.accountId ?? null)
    : (idOrEmail as AccountId)
  if (accountId === null || !(await accounts.read(accountId, context)))
    throw notFound('no account has this id or e-mail; "accounts list" shows them')
  const link = await linkFor(context, accountId)
  return { json: { accountId, ...link }, text: linkText(link.url, link.expiresAt) }
}

const emailChanged = (staffId: string) =>
  new CliRefusal(
    'email_changed',
    `the vault has another e-mail for ${staffId} than its events commit to: the table vault.staff was changed; restore it from a backup`,
  )

/** The staff member with this id or e-mail. @throws CliRefusal when the e-mail does not match the committed one */
const requireStaff = async (context: CliContext, idOrEmail: string): Promise<StaffMember> => {
  const found = await findStaff(context.pool, idOrEmail)
  if (found) {
    const { emailCommitment } = await createPeople(context).read(found.staffId, context)
    if (emailCommitment !== null && emailCommitment !== found.emailCommitment)
      throw emailChanged(found.staffId)
    return found
  }
  throw notFound('no member of the staff has this id or e-mail; "staff list" shows them')
}

export const grant = async (
  context: CliContext,
  { email, role }: { readonly email: string; readonly role: StaffRole },
): Promise<CliOutput> => {
  const claimed = await claimStaff(context.pool, email)
  const { staffId } = claimed
  const people = createPeople(context)
  const granted = await people.grant(claimed, role, context)
  if (granted.outcome === 'refused') throw emailChanged(staffId)
  const { passkeys } = await people.read(staffId, context)
  const link = passkeys.isEmpty() ? await linkFor(context, staffId) : null
  const grantText = granted.changed ? `granted ${role} to ${staffId}` : `${staffId} had ${role} already`
  return {
    json: { staffId, email, role, changed: granted.changed, ...link },
    text:
      link === null
        ? grantText
        : `${grantText}\n\nThe first passkey is registered through this link:\n\n${linkText(link.url, link.expiresAt)}`,
  }
}

export const revoke = async (
  context: CliContext,
  { idOrEmail, role }: Person & { readonly role?: StaffRole },
): Promise<CliOutput> => {
  const { staffId } = await requireStaff(context, idOrEmail)
  const people = createPeople(context)
  const revoked: StaffRole[] = []
  for (const each of role === undefined ? staffRoles : [role]) {
    const result = await people.revokeRole(staffId, each, context)
    if (result.outcome === 'done' && result.changed) revoked.push(each)
  }
  return {
    json: { staffId, revoked, changed: revoked.length > 0 },
    text:
      revoked.length > 0
        ? `revoked ${revoked.join(' and ')} of ${staffId}, from the next page on`
        : `${staffId} had no such role`,
  }
}

export const list = async (context: CliContext) => {
  const people = createPeople(context)
  const staff = await Promise.all(
    (await listStaff(context.pool)).map(async (each) => {
      const { roles, passkeys } = await people.read(each.staffId, context)
      return { ...each, roles: [...roles].sort(), passkeys: passkeys.size }
    }),
  )
  return { json: { staff }, rows: staff }
}

export const staffSignInLink = async (context: CliContext, { idOrEmail }: Person) => {
  const { staffId } = await requireStaff(context, idOrEmail)
  const link = await linkFor(context, staffId)
  return { json: { staffId, ...link }, text: linkText(link.url, link.expiresAt) }
}

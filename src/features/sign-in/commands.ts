import { staffRoles } from '../../domain/staff/roles.ts'
import { command } from '../../platform/cli/command.ts'
import { argument, oneOf, option, required } from '../../platform/cli/input.ts'
import { emailText } from '../accounts/for-commands.ts'

const runs = () => import('./run-commands.ts')

const member = argument('<idOrEmail>', 'the id or the e-mail of the member')
const role = ['<role>', 'finance sees the books, operator runs the service', oneOf(staffRoles)] as const

export const commands = [
  command({
    name: 'accounts sign-in-link',
    about: 'print a link that signs a person in to the console once, if mail does not arrive',
    input: { idOrEmail: argument('<idOrEmail>', 'the id or the e-mail of the account') },
    examples: ['bin/farebox accounts sign-in-link acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b --json'],
    run: async () => (await runs()).signInLink,
  }),
  command({
    name: 'staff grant',
    about: 'grant a role; a member without a passkey gets a link that registers the first one',
    input: {
      email: required('<address>', 'the e-mail of the person; a new address creates a member', emailText),
      role: required(...role),
    },
    examples: ['bin/farebox staff grant --email ops@example.com --role operator'],
    run: async () => (await runs()).grant,
  }),
  command({
    name: 'staff revoke',
    about: 'revoke a role, or all roles; effective from the next page on',
    input: { idOrEmail: member, role: option(...role) },
    run: async () => (await runs()).revoke,
  }),
  command({
    name: 'staff list',
    about: 'list members, their roles and passkeys',
    columns: {
      staff: 'staffId',
      'e-mail': 'email',
      roles: ({ roles }) => roles.join(',') || 'none',
      passkeys: 'passkeys',
      since: 'createdAt',
    },
    empty: 'no staff; "staff grant" makes the first member',
    run: async () => (await runs()).list,
  }),
  command({
    name: 'staff sign-in-link',
    about: 'print a link for a member without a passkey: it registers a new one',
    input: { idOrEmail: member },
    run: async () => (await runs()).staffSignInLink,
  }),
]

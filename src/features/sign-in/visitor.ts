import type pg from 'pg'
import { isStaff } from '../../domain/staff/lifetimes.ts'
import type { Cause } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { ShownAccount, Visitor } from '../../platform/ui/page.ts'
import { type Role, type Session, sessionCause } from '../../platform/ui/page.ts'
import type { Accounts } from '../accounts/index.ts'
import { findStaff, type People } from './people.ts'

const accountRoles = ({ reseller }: ShownAccount): readonly Role[] =>
  reseller ? ['customer', 'reseller'] : ['customer']

/**
 * The person of a session and their permissions. Staff who signed in with a command-line link have no role until a
 * passkey is registered. Null when the person does not exist any more, or when the session was ended or never begun in
 * the log.
 */
export const createVisitors = ({
  pool,
  people,
  accounts,
}: {
  readonly pool: pg.Pool
  readonly people: People
  readonly accounts: Pick<Accounts, 'read' | 'emailOf'>
}) => {
  // Read from the log, so that a block or the end of a role applies from the next page on.
  const findAccount = async (accountId: AccountId, cause: Cause): Promise<ShownAccount | null> => {
    const [state, email] = await Promise.all([
      accounts.read(accountId, cause),
      accounts.emailOf(accountId, cause),
    ])
    return state && { accountId, email: email ?? '', reseller: state.reseller, blocked: state.blocked }
  }

  return async (session: Session, requestId: string): Promise<Visitor | null> => {
    const { subjectId, sessionId, method, viewing } = session
    const cause = sessionCause(session, requestId)
    const person = await people.read(subjectId, cause)
    if (!person.sessions.has(sessionId)) return null
    if (!isStaff(subjectId)) {
      const account = await findAccount(subjectId as AccountId, cause)
      return account && { session, roles: new Set(accountRoles(account)), name: account.email, account }
    }
    const member = await findStaff(pool, subjectId)
    if (member === null || person.roles.isEmpty()) return null
    const ownRoles: readonly Role[] = method === 'passkey' ? [...person.roles] : []
    const account =
      viewing !== null && ownRoles.includes('operator') ? await findAccount(viewing, cause) : null
    return {
      session,
      roles: new Set([...ownRoles, ...(account ? accountRoles(account) : [])]),
      name: member.email,
      account,
    }
  }
}

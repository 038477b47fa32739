import type pg from 'pg'
import {
  decideConfirmation,
  decideGrant,
  decideLink,
  decidePasskey,
  decidePasskeyRemoval,
  decideRoleRevocation,
  decideSessionEnd,
  decideSignIn,
  decideView,
  decideWorkRetry,
  type PersonDecision,
  type PersonRefusal,
} from '../../domain/staff/decide.ts'
import type { AccountViewed, ActConfirmed, SessionEnded, WorkRetryAsked } from '../../domain/staff/events.ts'
import { type PersonState, personRef } from '../../domain/staff/fold.ts'
import type { StaffRole } from '../../domain/staff/roles.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { Cause, SignInMethod } from '../../kernel/event.ts'
import { newId } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle, type Result, readState } from '../../platform/commands/command.ts'
import { commitmentOf, freshSalt, saltedText } from '../../platform/vault/seal.ts'

export type PersonResult = Result<PersonRefusal>

/** Sign-ins, and changes of who may do what in the console: each is an event with its actor. */
export type People = {
  /** Refusal: `email_changed`. */
  grant(
    member: { readonly staffId: string; readonly emailCommitment: string },
    role: StaffRole,
    cause: Cause,
  ): Promise<PersonResult>
  revokeRole(staffId: string, role: StaffRole, cause: Cause): Promise<PersonResult>
  /** Refusal: `no_role`. */
  linkMade(subjectId: string, expiresAtMs: number, cause: Cause): Promise<PersonResult>
  /** Refusals: `no_role`, `passkey_needed`. */
  signIn(
    signIn: { readonly subjectId: string; readonly sessionId: string; readonly method: SignInMethod },
    cause: Cause,
  ): Promise<PersonResult>
  sessionEnded(end: SessionEnded['data'], cause: Cause): Promise<PersonResult>
  /** Refusal: `too_many_passkeys`. */
  passkeyAdded(
    passkey: { readonly subjectId: string; readonly passkeyId: string; readonly commitment: string },
    cause: Cause,
  ): Promise<PersonResult>
  /** Refusal: `last_passkey`. */
  passkeyRemoved(subjectId: string, passkeyId: string, cause: Cause): Promise<PersonResult>
  confirmed(confirmed: ActConfirmed['data'], cause: Cause): Promise<PersonResult>
  /** Refusal: `no_role`. */
  viewed(accountView: AccountViewed['data'], cause: Cause): Promise<PersonResult>
  /** Refusal: `no_role`. */
  workRetryAsked(retryRequest: WorkRetryAsked['data'], cause: Cause): Promise<PersonResult>
  /** The person in the log. */
  read(subjectId: string, cause: Cause): Promise<PersonState>
}

export const createPeople = ({ runner }: { readonly runner: CommandRunner }): People => {
  const change = (
    name: string,
    subjectId: string,
    cause: Cause,
    decide: (state: PersonState) => PersonDecision,
  ): Promise<PersonResult> => handle(runner, { ...cause, name }, personRef(subjectId), decide)
  return {
    grant: ({ staffId, emailCommitment }, role, cause) =>
      change('grant-staff-role', staffId, cause, (state) =>
        decideGrant(state, { staffId, role, emailCommitment }),
      ),
    revokeRole: (staffId, role, cause) =>
      change('revoke-staff-role', staffId, cause, (state) => decideRoleRevocation(state, { staffId, role })),
    linkMade: (subjectId, expiresAtMs, cause) =>
      change('make-sign-in-link', subjectId, cause, (state) =>
        decideLink(state, { subjectId, expiresAt: isoTime(expiresAtMs) }),
      ),
    signIn: (signIn, cause) =>
      change('sign-in', signIn.subjectId, cause, (state) => decideSignIn(state, signIn)),
    sessionEnded: (end, cause) =>
      change('end-session', end.subjectId, cause, (state) => decideSessionEnd(state, end)),
    passkeyAdded: (passkey, cause) =>
      change('add-passkey', passkey.subjectId, cause, (state) => decidePasskey(state, passkey)),
    passkeyRemoved: (subjectId, passkeyId, cause) =>
      change('remove-passkey', subjectId, cause, (state) =>
        decidePasskeyRemoval(state, { subjectId, passkeyId }),
      ),
    confirmed: (confirmed, cause) =>
      change('confirm-act', confirmed.subjectId, cause, (state) => decideConfirmation(state, confirmed)),
    viewed: (accountView, cause) =>
      change('view-account', accountView.staffId, cause, (state) => decideView(state, accountView)),
    workRetryAsked: (retryRequest, cause) =>
      change('ask-work-retry', retryRequest.staffId, cause, (state) => decideWorkRetry(state, retryRequest)),
    read: (subjectId, cause) => readState(runner, { ...cause, name: 'read-person' }, personRef(subjectId)),
  }
}

export type StaffMember = {
  readonly staffId: string
  readonly email: string
  readonly createdAt: string
  /** The commitment to the e-mail; null if the row has none. */
  readonly emailCommitment: string | null
}

type StaffRow = {
  readonly staff_id: string
  readonly email: string
  readonly created_at: string
  readonly salt: Buffer | null
}

/** The commitment of an event to a staff member's e-mail. */
export const staffEmailCommitment = (staffId: string, salt: Uint8Array, email: string): string =>
  commitmentOf({ what: 'staff-email', id: staffId, owner: staffId }, saltedText(salt, email))

const memberOf = ({ staff_id: staffId, email, created_at: createdAt, salt }: StaffRow): StaffMember => ({
  staffId,
  email,
  createdAt,
  emailCommitment: salt && staffEmailCommitment(staffId, salt, email),
})

/** The staff member with this e-mail, created if missing. Addresses are compared without case. */
export const claimStaff = async (
  pool: pg.Pool,
  email: string,
): Promise<{ readonly staffId: string; readonly emailCommitment: string }> => {
  const { rows } = await pool.query<StaffRow & { readonly salt: Buffer }>(
    `insert into vault.staff (staff_id, email, salt) values ($1::text, $2::text, $3::bytea)
     on conflict ((lower(email))) do update set salt = coalesce(vault.staff.salt, excluded.salt)
     returning staff_id, email, created_at, salt`,
    [newId<string>('stf'), email, freshSalt()],
  )
  const { staff_id: staffId, email: storedEmail, salt } = rows[0]!
  return { staffId, emailCommitment: staffEmailCommitment(staffId, salt, storedEmail) }
}

/** By id or e-mail; null if not found. */
export const findStaff = async (pool: pg.Pool, idOrEmail: string): Promise<StaffMember | null> => {
  const { rows } = await pool.query<StaffRow>(
    `select staff_id, email, created_at, salt from vault.staff
      where staff_id = $1::text or lower(email) = lower($1::text)`,
    [idOrEmail],
  )
  return rows[0] ? memberOf(rows[0]) : null
}

/** All people who ever had a role, oldest first. */
export const listStaff = async (pool: pg.Pool): Promise<readonly StaffMember[]> => {
  const { rows } = await pool.query<StaffRow>(
    'select staff_id, email, created_at, salt from vault.staff order by staff_id',
  )
  return rows.map(memberOf)
}

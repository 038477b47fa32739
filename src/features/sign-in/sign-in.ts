import { isStaff } from '../../domain/staff/decide.ts'
import type { Cause, SignInMethod } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { addressSubject } from '../../platform/http/client-address.ts'
import type { RateLimiter } from '../../platform/http/rate-limit.ts'
import type { Mailer, MailMessage } from '../../platform/outgoing/mailer.ts'
import { dropCookie, setCookie } from '../../platform/ui/cookies.ts'
import type { Visit } from '../../platform/ui/page.ts'
import { type Opened, type Sessions, sessionCause } from '../../platform/ui/session.ts'
import type { Accounts } from '../accounts/index.ts'
import type { Passkeys } from './passkeys.ts'
import type { People } from './people.ts'
import { newSessionId } from './sessions.ts'
import type { Codes, Links } from './sign-in-links.ts'

const ending = `If it was not you, do nothing: nobody gets in without this letter.`

/** The link stands on a line of its own, and is short enough not to be cut. */
export const signInMail = (to: string, merchant: string, link: string): MailMessage => ({
  to,
  subject: `Sign in to ${merchant}`,
  text: `Open this link and press the button to sign in to ${merchant}:

${link}

It is good once, for ten minutes, in the browser in which it was asked for.
${ending}
`,
})

export const confirmationMail = (to: string, merchant: string, code: string): MailMessage => ({
  to,
  subject: `Your code for ${merchant}`,
  text: `Type this code to confirm what you are about to do in ${merchant}:

    ${code}

It is good once, for ten minutes.
If it was not you, end your sessions in the console: somebody uses one of them.
`,
})

/** What the pages of signing in work with. */
export type SignInDeps = {
  readonly sessions: Sessions
  readonly links: Links
  readonly codes: Codes
  readonly passkeys: Passkeys
  readonly people: People
  readonly accounts: Pick<Accounts, 'read'>
  /**
   * The account that has this e-mail, with the address as it is kept; null when nobody does. Addresses are found in whatever
   * case they are typed, and letters that differ may fold to the same: only the kept one is ever written to.
   */
  readonly accountOfEmail: (
    email: string,
  ) => Promise<{ readonly accountId: AccountId; readonly email: string } | null>
  /** Null where no mail is sent. */
  readonly mailer: Mailer | null
  readonly origin: () => string
  readonly name: string
  /** Where islands are. */
  readonly passkeyScript: string
  /** Null where limits are switched off. */
  readonly limits: SignInLimits | null
}

/** How often somebody may try to sign in: each try costs a minute, or twenty seconds, of a bucket. */
export type SignInLimits = { readonly perEmail: RateLimiter; readonly perAddress: RateLimiter }

export const signInRates = {
  perEmail: { burst: 300, perSecond: 1 },
  perAddress: { burst: 600, perSecond: 1 },
} as const
const costs = { email: 60, address: 20 } as const

/** Seconds to wait before another try from this address, or for this e-mail; 0: none. */
export const signInDelayS = (limits: SignInLimits | null, address: string, email?: string): number => {
  if (limits === null) return 0
  const ofAddress = limits.perAddress.take(addressSubject(address), costs.address)
  if (ofAddress > 0 || email === undefined) return ofAddress
  return limits.perEmail.take(email.toLowerCase(), costs.email)
}

/** The cookie that keeps a person signed in. */
export const sessionCookie = ({ secret, endsAtMs }: Opened, nowMs: number): string =>
  setCookie('session', secret, 'Lax', Math.max(0, Math.floor((endsAtMs - nowMs) / 1000)))

/**
 * Signs a person in: an event, a session with a secret of its own, and the end of the one that the browser had.
 * @returns cookies, or null when the person may not sign in this way
 */
export const signIn = async (
  { people, sessions, accounts }: SignInDeps,
  visit: Visit,
  subjectId: string,
  method: SignInMethod,
): Promise<readonly string[] | null> => {
  const sessionId = newSessionId(subjectId)
  const session = { subjectId, sessionId, method }
  const cause = sessionCause(session, visit.requestId)
  if (!isStaff(subjectId) && (await accounts.read(subjectId as AccountId, cause)) === null) return null
  const done = await people.signIn(session, cause)
  if (done.outcome === 'refused') return null
  if (visit.visitor) await endSession({ people, sessions }, visit.visitor.session, 'signed_out', cause)
  const opened = await sessions.open(session, visit.browser)
  return [sessionCookie(opened, visit.nowMs), dropCookie('asking')]
}

/** Ends a session for good; nothing happens when it is over. */
export const endSession = async (
  { people, sessions }: Pick<SignInDeps, 'people' | 'sessions'>,
  { subjectId, sessionId }: { readonly subjectId: string; readonly sessionId: string },
  reason: 'signed_out' | 'revoked',
  cause: Cause,
): Promise<void> => {
  const ended = await sessions.end(subjectId, sessionId)
  if (ended !== null) await people.sessionEnded({ subjectId, sessionId, reason }, cause)
}

import { isStaff } from '../../domain/staff/lifetimes.ts'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { Cause, SignInMethod } from '../../kernel/event.ts'
import { type AccountId, newId } from '../../kernel/ids.ts'
import { addressSubject } from '../../kernel/ip-address.ts'
import { createRateLimiter, type RateLimiter } from '../../platform/http/rate-limiter.ts'
import type { Mailer, MailMessage } from '../../platform/outgoing/mailer.ts'
import { dropCookie, setCookie } from '../../platform/ui/cookies.ts'
import type { Visit } from '../../platform/ui/page.ts'
import { type Opened, type Sessions, sessionCause } from '../../platform/ui/page.ts'
import { shownCode } from '../../platform/vault/secrets.ts'
import type { Accounts } from '../accounts/index.ts'
import type { Passkeys } from './passkeys.ts'
import type { People } from './people.ts'
import { linkUrl } from './printed-link.ts'
import { newSessionId } from './sessions.ts'
import type { Codes, Links } from './sign-in-links.ts'

/** The purpose of sign-in challenges. Answers to other challenges do not sign in. */
export const signInPurpose = 'sign-in'

export const waitText = (seconds: number): string =>
  `Too many attempts. Wait ${Math.ceil(seconds)} seconds and try again.`

const closingText = `If you did not request it, ignore this e-mail. No other person can sign in without it.`

/** The link has its own line and is short enough not to be wrapped. */
const signInMail = (to: string, merchant: string, link: string): MailMessage => ({
  to,
  subject: `Sign in to ${merchant}`,
  text: `Open this link and press the button to sign in to ${merchant}:

${link}

The link works once, for ten minutes, in the browser that requested it.
${closingText}
`,
})

const confirmationMail = (to: string, merchant: string, code: string): MailMessage => ({
  to,
  subject: `Your code for ${merchant}`,
  text: `Type this code to confirm your action in ${merchant}:

    ${code}

The code works once, for ten minutes.
If you did not request it, end your sessions in the console: another person is using one of them.
`,
})

/** Mails a link to the account with this e-mail. @param browser the secret of the requesting browser */
export type SendLink = (email: string, browser: string) => Promise<void>

/**
 * Addresses are compared without case, and different letters may fold to the same. So the link goes to the stored
 * address, never to the typed one.
 */
export const createSendLink =
  ({
    accounts,
    links,
    mailer,
    origin,
    name,
  }: {
    readonly accounts: Pick<Accounts, 'byEmail'>
    readonly links: Pick<Links, 'mailed'>
    readonly mailer: Mailer
    /** The origin of the console. */
    readonly origin: () => string
    /** The name of the service. */
    readonly name: string
  }): SendLink =>
  async (typed, browser) => {
    const cause = { actor: { kind: 'system', name: 'console' }, correlationId: newId('run') } as const
    const knownAccount = await accounts.byEmail(typed, cause)
    const link = await links.mailed({ subjectId: knownAccount?.accountId ?? null, email: typed, browser })
    if (knownAccount !== null) mailer.send(signInMail(knownAccount.email, name, linkUrl(origin(), link)))
  }

/** E-mailed codes, each for one act of one session. */
export type MailedCodes = Pick<Codes, 'redeem'> & {
  send(to: string, sessionId: string, act: string): Promise<void>
}

export const createMailedCodes = ({
  codes,
  mailer,
  name,
}: {
  readonly codes: Codes
  readonly mailer: Mailer
  /** The name of the service. */
  readonly name: string
}): MailedCodes => ({
  redeem: codes.redeem,
  send: async (to, sessionId, act) => {
    const code = await codes.make(sessionId, act)
    mailer.send(confirmationMail(to, name, shownCode(code)))
  },
})

/**
 * Rate limits of sign-in attempts. Anybody can request mails to any mailbox. Each source has its own limit, so that one
 * source cannot use up the limit of another. A second limit for all sources together protects a mailbox from being
 * flooded.
 */
export type SignInLimits = { readonly perSource: RateLimiter; readonly letters: RateLimiter }

export const createSignInLimits = (monotonicMs: MonotonicClock): SignInLimits => ({
  perSource: createRateLimiter({ burst: 600, perSecond: 1 }, monotonicMs),
  letters: createRateLimiter({ burst: 300, perSecond: 1 }, monotonicMs),
})

/**
 * Tokens for an attempt of a source, and for a mail to a mailbox in the limit of its source and in that of all sources.
 */
const costs = { try: 20, letterOfSource: 60, letter: 12 } as const

/**
 * Seconds to wait before another attempt of this source; 0: none.
 * @param address of the client
 * @param mailbox recipient of the mail
 */
export const signInDelayS = (limits: SignInLimits | null, address: string, mailbox?: string): number => {
  if (limits === null) return 0
  const source = addressSubject(address)
  const sourceDelayS = limits.perSource.take(source, costs.try)
  if (sourceDelayS > 0 || mailbox === undefined) return sourceDelayS
  const to = mailbox.toLowerCase()
  return limits.letters.take(`${to} ${source}`, costs.letterOfSource) || limits.letters.take(to, costs.letter)
}

/** Seconds to wait before another code is mailed for a session; 0: none. Each session has its own limit. */
export const codeDelayS = (limits: SignInLimits | null, sessionId: string): number =>
  limits?.letters.take(sessionId, costs.letterOfSource) ?? 0

/** The session cookie. */
export const sessionCookie = ({ secret, endsAtMs }: Opened, nowMs: number): string =>
  setCookie('session', secret, 'Lax', Math.max(0, Math.floor((endsAtMs - nowMs) / 1000)))

/**
 * Signs a person in: appends an event, ends the browser's former session, and opens a session with a new secret.
 * @returns cookies, or null when the person may not sign in this way
 */
export type SignIn = (
  visit: Visit,
  subjectId: string,
  method: SignInMethod,
) => Promise<readonly string[] | null>

export const createSignIn =
  ({
    people,
    sessions,
    accounts,
  }: {
    readonly people: Pick<People, 'signIn' | 'sessionEnded'>
    readonly sessions: Pick<Sessions, 'open' | 'end'>
    readonly accounts: Pick<Accounts, 'read'>
  }): SignIn =>
  async (visit, subjectId, method) => {
    const sessionId = newSessionId(subjectId)
    const session = { subjectId, sessionId, method }
    const cause = sessionCause(session, visit.requestId)
    if (!isStaff(subjectId) && (await accounts.read(subjectId as AccountId, cause)) === null) return null
    const result = await people.signIn(session, cause)
    if (result.outcome === 'refused') return null
    if (visit.visitor) await endSession({ people, sessions }, visit.visitor.session, 'signed_out', cause)
    const opened = await sessions.open(session, visit.browser)
    return [sessionCookie(opened, visit.nowMs), dropCookie('asking')]
  }

/**
 * Signs in the owner of the passkey.
 * @param answer the browser's answer for it
 * @returns cookies, or null when the answer is not accepted
 */
export type SignInByPasskey = (visit: Visit, answer: string) => Promise<readonly string[] | null>

export const createSignInByPasskey =
  ({
    passkeys,
    signIn,
  }: {
    readonly passkeys: Pick<Passkeys, 'verify'>
    readonly signIn: SignIn
  }): SignInByPasskey =>
  async (visit, answer) => {
    const cause = { actor: { kind: 'system', name: 'console' }, correlationId: visit.requestId } as const
    const verifiedPasskey = await passkeys.verify(answer, signInPurpose, cause)
    return verifiedPasskey && signIn(visit, verifiedPasskey.subjectId, 'passkey')
  }

/** Ends a session permanently. Does nothing if it already ended. */
export const endSession = async (
  {
    people,
    sessions,
  }: { readonly people: Pick<People, 'sessionEnded'>; readonly sessions: Pick<Sessions, 'end'> },
  { subjectId, sessionId }: { readonly subjectId: string; readonly sessionId: string },
  reason: 'signed_out' | 'revoked',
  cause: Cause,
): Promise<void> => {
  const ended = await sessions.end(subjectId, sessionId)
  if (ended !== null) await people.sessionEnded({ subjectId, sessionId, reason }, cause)
}

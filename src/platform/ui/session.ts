import type { Cause, SignInMethod } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'

/** The roles of visitors. A reseller is a customer as well. Staff has no account. */
export type Role = 'customer' | 'reseller' | 'finance' | 'operator'

export const roles: readonly Role[] = ['customer', 'reseller', 'finance', 'operator']

/** The cause of events that are appended for a session. */
export const sessionCause = (
  { subjectId, sessionId, method }: Pick<Session, 'subjectId' | 'sessionId' | 'method'>,
  requestId: string,
): Cause => ({ actor: { kind: 'session', subjectId, sessionId, method }, correlationId: requestId })

export type Session = {
  readonly sessionId: string
  /** An account, or a member of the staff. */
  readonly subjectId: string
  readonly method: SignInMethod
  readonly createdAt: string
  readonly seenAt: string
  readonly endsAt: string
  /** Until when confirmed actions need no further confirmation; null: they need one. */
  readonly confirmedUntil: string | null
  /** The only action that the confirmation is valid for; null: any. */
  readonly confirmedAct: string | null
  /** The account that a member of the staff views. */
  readonly viewing: AccountId | null
  readonly userAgent: string
  readonly address: string
}

/** A session and the new secret of its cookie. The secret is not stored. */
export type Opened = { readonly sessionId: string; readonly secret: string; readonly endsAtMs: number }

/** The browser of a session. */
export type Browser = { readonly userAgent: string; readonly address: string }

export type Sessions = {
  open(
    who: { readonly subjectId: string; readonly sessionId: string; readonly method: SignInMethod },
    browser: Browser,
  ): Promise<Opened>
  /** The session of a cookie, marked as used; null if it has ended or never existed. */
  find(secret: string | null): Promise<Session | null>
  /** Replaces the secret of the session. A secret that somebody planted or saw is then no longer valid. */
  renew(
    sessionId: string,
    change: {
      readonly method?: SignInMethod
      /** The confirmed action; null: any, as after a sign-in. */
      readonly act?: string | null
    },
  ): Promise<Opened>
  view(sessionId: string, account: AccountId | null): Promise<void>
  /** The sessions that have not ended, the newest first. */
  list(subjectId: string): Promise<readonly Session[]>
  /** Ends one session of a person; null if the session belongs to another person or has ended. */
  end(subjectId: string, sessionId: string): Promise<{ readonly sessionId: string } | null>
  /** Ends all sessions of a person except `keep`. Returns their ids. */
  endOthers(subjectId: string, keep: string | null): Promise<readonly string[]>
}

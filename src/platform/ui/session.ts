import type { Cause, SignInMethod } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'

/** Whose pages there are. A reseller is a customer as well; staff has no account. */
export type Role = 'customer' | 'reseller' | 'finance' | 'operator'

export const roles: readonly Role[] = ['customer', 'reseller', 'finance', 'operator']

/** Of the events of what is done in a session. */
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
  /** Until when acts need no second look; null: they need one. */
  readonly confirmedUntil: string | null
  /** The only act that it holds for; null: any. */
  readonly confirmedAct: string | null
  /** The account whose pages a member of the staff looks at. */
  readonly viewing: AccountId | null
  readonly userAgent: string
  readonly address: string
}

/** A session of this moment with the secret of its cookie, which is kept nowhere. */
export type Opened = { readonly sessionId: string; readonly secret: string; readonly endsAtMs: number }

/** Whose browser it is. */
export type Browser = { readonly userAgent: string; readonly address: string }

export type Sessions = {
  open(
    who: { readonly subjectId: string; readonly sessionId: string; readonly method: SignInMethod },
    browser: Browser,
  ): Promise<Opened>
  /** The session of a cookie, marked as used; null when it ended, or never was. */
  find(secret: string | null): Promise<Session | null>
  /** Gives the session another secret, so that one which somebody planted or saw opens nothing any more. */
  renew(
    sessionId: string,
    change: {
      readonly method?: SignInMethod
      /** The act that was confirmed; null: any, as by a sign-in. */
      readonly act?: string | null
    },
  ): Promise<Opened>
  view(sessionId: string, account: AccountId | null): Promise<void>
  /** Those that have not ended, the newest first. */
  list(subjectId: string): Promise<readonly Session[]>
  /** Ends one of a person's sessions; null when it is not theirs or is over. */
  end(subjectId: string, sessionId: string): Promise<{ readonly sessionId: string } | null>
  /** Ends all of a person's but one; gives their ids. */
  endOthers(subjectId: string, keep: string | null): Promise<readonly string[]>
}

import type { Readable } from 'node:stream'
import type { Cause, SignInMethod } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { refusalOf } from './answer-page.ts'
import type { publicRoots } from './cookies.ts'
import { emptyFormInput, type FormInput, type FormState, type Problems } from './form.ts'
import type { Theme, View } from './frame.ts'
import type { Html } from './html.ts'

/** The account whose pages are shown. */
export type ShownAccount = {
  readonly accountId: AccountId
  /** Empty after the account was erased. */
  readonly email: string
  readonly reseller: boolean
  readonly blocked: boolean
}

/** The person who views a page. */
export type Visitor = {
  readonly session: Session
  readonly roles: ReadonlySet<Role>
  /** The name of a member of the staff, or of the account. */
  readonly name: string
  /** Null for staff that views no account. */
  readonly account: ShownAccount | null
}

/** The displayed name of a person: the name, else the id. */
export const displayNameOf = ({ name, session }: Visitor): string => (name === '' ? session.subjectId : name)

/** A request for a page. */
export type Visit = {
  /** As requested, without its query. */
  readonly path: string
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  readonly visitor: Visitor | null
  readonly browser: Browser
  /** The secret of a browser that requested a sign-in link. */
  readonly signInRequestSecret: string | null
  /** The page that was requested before the sign-in; `/console`: none. */
  readonly wanted: string
  readonly theme: Theme
  /** The time zone for times; null: UTC. */
  readonly zone: string | null
  readonly requestId: string
  readonly nowMs: number
  /** The form of the page. */
  readonly form: FormState
}

/** The text of a field: as typed, or in the query of the page. */
export const fieldTextsOf =
  ({ form, query }: Visit): ((name: string) => string) =>
  (name) =>
    form.typed === emptyFormInput ? (query.get(name)?.trim() ?? '') : form.typed.text(name)

/** A request of a signed-in person. `cause` is for the events that it causes. */
export type PersonVisit = Visit & { readonly visitor: Visitor; readonly cause: Cause }
/** A request for a page of an account. */
export type AccountVisit = PersonVisit & { readonly account: ShownAccount }

/** The answer of a page. */
export type PageOutcome = (
  | { readonly kind: 'view'; readonly view: View; readonly status?: 200 | 400 | 403 | 404 | 409 | 429 }
  | { readonly kind: 'redirect'; readonly to: string; readonly flash?: string }
  | {
      readonly kind: 'file'
      readonly name: string
      readonly mediaType: 'text/csv' | 'text/plain' | 'application/json'
      readonly content: string | Readable
    }
) & {
  /** `Set-Cookie` lines. */
  readonly cookies?: readonly string[]
}

/** A view with another status than 200. */
export const viewWithStatus = (view: View, status: 400 | 409 | 429): PageOutcome => ({
  kind: 'view',
  view,
  status,
})

type RefusalStatus = 400 | 409 | 429

/** A refused form: its page is shown again, with the typed values and the problems. */
export type FormRefusal = {
  readonly kind: 'refused'
  readonly problems: Problems
  readonly status: RefusalStatus
  readonly message: Html | null
}

export const refused = (problems: Problems, status: RefusalStatus = 400): FormRefusal => ({
  kind: 'refused',
  problems,
  status,
  message: null,
})

/**
 * A form that was refused as the API would refuse it. `fields` has the field of an error code; default: the form.
 * @throws any other error
 */
export const refusedBy = (error: unknown, fields: Readonly<Record<string, string>> = {}): FormRefusal => {
  const { text, status, code } = refusalOf(error)
  return refused({ [fields[code] ?? 'form']: text }, status)
}

export const fileOf = (
  name: string,
  content: string | Readable,
  mediaType: 'text/csv' | 'text/plain' | 'application/json' = 'text/csv',
): PageOutcome => ({ kind: 'file', name, mediaType, content })
/** The answer after an action: the next page, and a sentence that it shows once. */
export const goTo = (to: string, flash?: string): PageOutcome => ({
  kind: 'redirect',
  to,
  ...(flash !== undefined && { flash }),
})

/** The action of a page's form. */
export type Act<V extends Visit> = {
  /**
   * A form that is sent twice acts once. `by key`: the action itself happens once per `typed.key`, and a second
   * submission gets the same answer.
   */
  readonly once?: true | 'by key'
  /** A blocked account may do it. */
  readonly whenBlocked?: true
  /** A blocked account may do it, and so may staff that views an account. */
  readonly harmless?: true
  run(visit: V, typed: FormInput): Promise<View | PageOutcome | FormRefusal>
}

/** What every page declares. */
export type Common = {
  /**
   * In the form of the HTTP server's paths, e.g. `/console/orders/{id}`. Public pages may be below `publicRoots`, too.
   */
  readonly path: '/' | `/console${string}` | `${(typeof publicRoots)[number]}${string}`
  /** Stable name for logs and metrics, e.g. `showKeys`. */
  readonly name: string
  /** A few words without a full stop. */
  readonly summary: string
  /** What it shows, as a breadcrumb of the pages below it, e.g. `Plan`. Left out: it is no breadcrumb. */
  readonly crumb?: string
  /**
   * Page and form need a confirmation of the person's identity for this page within the last five minutes: keys,
   * secrets, refunds, credits.
   */
  readonly confirmed?: true
}

/** A page without the type of its visits. The type was checked at the declaration of the page. */
export type ConsolePage = Common & {
  /** Who may see it: everyone, every signed-in person, or some roles. */
  readonly for: 'anyone' | 'person' | readonly Role[]
  /** It shows data of an account. */
  readonly ofAccount: boolean
  /** Left out: the page has only an action, and another page contains its form. */
  readonly show?: (visit: never) => Promise<View | PageOutcome>
  readonly act?: Act<never>
}

/** A page for everyone, signed in or not. */
export const openPage = (
  page: Common & { show?(visit: Visit): Promise<View | PageOutcome>; readonly act?: Act<Visit> },
): ConsolePage => ({ ...page, for: 'anyone', ofAccount: false })

/** A page about the signed-in person, or (`for`) for some roles of the staff. */
export const personPage = (
  page: Common & {
    readonly for?: readonly Role[]
    show?(visit: PersonVisit): Promise<View | PageOutcome>
    readonly act?: Act<PersonVisit>
  },
): ConsolePage => ({ ...page, for: page.for ?? 'person', ofAccount: false })

type PersonPage = Parameters<typeof personPage>[0]
type AccountPage = Parameters<typeof accountPage>[0]

export const operatorPage = (page: PersonPage): ConsolePage => personPage({ ...page, for: ['operator'] })
/** A page that finance and operators see. Its actions are on pages of operators. */
export const staffPage = (page: PersonPage): ConsolePage =>
  personPage({ ...page, for: ['finance', 'operator'] })
export const financePage = (page: PersonPage): ConsolePage => personPage({ ...page, for: ['finance'] })
export const resellerPage = (page: AccountPage): ConsolePage => accountPage({ ...page, for: ['reseller'] })

/** A page about an account, for customers, or (`for`) for resellers only. */
export const accountPage = (
  page: Common & {
    readonly for?: readonly Role[]
    show?(visit: AccountVisit): Promise<View | PageOutcome>
    readonly act?: Act<AccountVisit>
  },
): ConsolePage => ({ ...page, for: page.for ?? ['customer'], ofAccount: true })

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
  /** Replaces the secret of the session. A planted or observed secret is then no longer valid. */
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

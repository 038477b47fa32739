import type { Readable } from 'node:stream'
import type { Cause } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { publicRoots } from './cookies.ts'
import type { FormInput } from './form.ts'
import type { Theme, View } from './frame.ts'
import type { Browser, Role, Session } from './session.ts'

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
  /** Identifies the next submission of a form on this page. */
  readonly formKey: string
}

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

export const show = (view: View): PageOutcome => ({ kind: 'view', view })
/** The form again, with the typed values and the problems. */
export const refusedView = (view: View, status: 400 | 409 | 429 = 400): PageOutcome => ({
  kind: 'view',
  view,
  status,
})
/** The answer after an action: the next page, and a sentence that it shows once. */
export const goTo = (to: string, flash?: string): PageOutcome => ({
  kind: 'redirect',
  to,
  ...(flash !== undefined && { flash }),
})

/** The action of a page's form. */
type Act<V extends Visit> = {
  /**
   * A form that is sent twice acts once: it contains `keyField(visit.formKey)`. `by key`: the action itself happens
   * once per `typed.key`, and a second submission gets the same answer.
   */
  readonly once?: true | 'by key'
  /** A blocked account may do it. */
  readonly whenBlocked?: true
  /** A blocked account may do it, and so may staff that views an account. */
  readonly harmless?: true
  run(visit: V, typed: FormInput): Promise<PageOutcome>
}

type Common = {
  /**
   * In the form of the HTTP server's paths, e.g. `/console/orders/{id}`. Public pages may be below `publicRoots`, too.
   */
  readonly path: '/' | `/console${string}` | `${(typeof publicRoots)[number]}${string}`
  /** Stable name for logs and metrics, e.g. `showKeys`. */
  readonly name: string
  /** A few words without a full stop. */
  readonly summary: string
  /**
   * Its entry in the navigation. Left out: none. `ofAccount`: not shown to visitors without an account, whom it would
   * redirect.
   */
  readonly nav?: { readonly label: string; readonly group?: string; readonly ofAccount?: true }
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
  readonly show?: (visit: never) => Promise<PageOutcome>
  readonly act?: Act<never>
}

/** A page for everyone, signed in or not. */
export const openPage = (
  page: Common & { show?(visit: Visit): Promise<PageOutcome>; readonly act?: Act<Visit> },
): ConsolePage => ({ ...page, for: 'anyone', ofAccount: false })

/** A page about the signed-in person, or (`for`) for some roles of the staff. */
export const personPage = (
  page: Common & {
    readonly for?: readonly Role[]
    show?(visit: PersonVisit): Promise<PageOutcome>
    readonly act?: Act<PersonVisit>
  },
): ConsolePage => ({ ...page, for: page.for ?? 'person', ofAccount: false })

/** A page about an account, for customers, or (`for`) for resellers only. */
export const accountPage = (
  page: Common & {
    readonly for?: readonly Role[]
    show?(visit: AccountVisit): Promise<PageOutcome>
    readonly act?: Act<AccountVisit>
  },
): ConsolePage => ({ ...page, for: page.for ?? ['customer'], ofAccount: true })

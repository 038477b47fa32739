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
  /** Empty once it was erased. */
  readonly email: string
  readonly reseller: boolean
  readonly blocked: boolean
}

/** Who looks at a page. */
export type Visitor = {
  readonly session: Session
  readonly roles: ReadonlySet<Role>
  /** How a member of the staff, or the account, is called. */
  readonly name: string
  /** Null for staff that looks at no account. */
  readonly account: ShownAccount | null
}

/** How somebody is called on pages: by name, else by id. */
export const displayNameOf = ({ name, session }: Visitor): string => (name === '' ? session.subjectId : name)

/** A request for a page. */
export type Visit = {
  /** As it was asked for, without its query. */
  readonly path: string
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  readonly visitor: Visitor | null
  readonly browser: Browser
  /** The secret of a browser that asked for a sign-in link. */
  readonly signInRequestSecret: string | null
  /** The page that it wanted before it could see it; `/console`: none. */
  readonly wanted: string
  readonly theme: Theme
  /** The time zone that times are shown in; null: UTC. */
  readonly zone: string | null
  readonly requestId: string
  readonly nowMs: number
  /** Names the next sending of a form on this page. */
  readonly formKey: string
}

/** A request of somebody who is signed in; `cause` is for the events of what they do. */
export type PersonVisit = Visit & { readonly visitor: Visitor; readonly cause: Cause }
/** A request for a page of an account. */
export type AccountVisit = PersonVisit & { readonly account: ShownAccount }

/** What becomes of a request for a page. */
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
/** The form again, with what was typed and what is wrong. */
export const refusedView = (view: View, status: 400 | 409 | 429 = 400): PageOutcome => ({
  kind: 'view',
  view,
  status,
})
/** After something was done: where to go on, and a sentence that is shown there once. */
export const goTo = (to: string, flash?: string): PageOutcome => ({
  kind: 'redirect',
  to,
  ...(flash !== undefined && { flash }),
})

/** What a form of the page does. */
type Act<V extends Visit> = {
  /**
   * Sent twice, it is done once: the form holds `keyField(visit.formKey)`. `by key`: what it does is done once by
   * `typed.key` itself, and the second sending gets the same answer.
   */
  readonly once?: true | 'by key'
  /** A blocked account may do it. */
  readonly whenBlocked?: true
  /** A blocked account may do it, and so may whoever only looks. */
  readonly harmless?: true
  run(visit: V, typed: FormInput): Promise<PageOutcome>
}

type Common = {
  /** In the form of the HTTP server's paths, e.g. `/console/orders/{id}`; of everybody's pages below `publicRoots`, too. */
  readonly path: '/' | `/console${string}` | `${(typeof publicRoots)[number]}${string}`
  /** Stable, for logs and metrics: `showKeys`. */
  readonly name: string
  /** What the page is, in a few words without a full stop. */
  readonly summary: string
  /** Its place in the navigation; left out: none. `ofAccount`: it leads whoever has no account to another page. */
  readonly nav?: { readonly label: string; readonly group?: string; readonly ofAccount?: true }
  /**
   * Page and form need that the person showed who they are within five minutes, for this page: keys, secrets, refunds,
   * credits.
   */
  readonly confirmed?: true
}

/** A page with the type of its visits taken away: each was checked where it was made. */
export type ConsolePage = Common & {
  /** Whose it is: of everybody, signed in or not; of everybody who is signed in; of some roles. */
  readonly for: 'anyone' | 'person' | readonly Role[]
  /** Shows things of an account. */
  readonly ofAccount: boolean
  /** Left out: the page is no more than its form, which another page holds. */
  readonly show?: (visit: never) => Promise<PageOutcome>
  readonly act?: Act<never>
}

/** A page for everybody, signed in or not. */
export const openPage = (
  page: Common & { show?(visit: Visit): Promise<PageOutcome>; readonly act?: Act<Visit> },
): ConsolePage => ({ ...page, for: 'anyone', ofAccount: false })

/** A page about whoever is signed in, or (`for`) of members of the staff. */
export const personPage = (
  page: Common & {
    readonly for?: readonly Role[]
    show?(visit: PersonVisit): Promise<PageOutcome>
    readonly act?: Act<PersonVisit>
  },
): ConsolePage => ({ ...page, for: page.for ?? 'person', ofAccount: false })

/** A page about an account, which a customer, or (`for`) a reseller alone, may see. */
export const accountPage = (
  page: Common & {
    readonly for?: readonly Role[]
    show?(visit: AccountVisit): Promise<PageOutcome>
    readonly act?: Act<AccountVisit>
  },
): ConsolePage => ({ ...page, for: page.for ?? ['customer'], ofAccount: true })

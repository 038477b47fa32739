import type pg from 'pg'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { sha256 } from '../../kernel/digest.ts'
import { notAllowed } from './answer-page.ts'
import { consolePath, wantedCookie } from './cookies.ts'
import type { FormInput } from './form.ts'
import type { NavGroup } from './frame.ts'
import { html } from './html.ts'
import { type ConsolePage, goTo, type PageOutcome, type Visit, type Visitor } from './page.ts'

const dayMs = 86_400_000

/** Whether the page is one of this visitor's. */
export const mayVisit = (page: ConsolePage, visitor: Visitor | null): boolean => {
  if (page.for === 'anyone') return true
  if (visitor === null) return false
  if (page.ofAccount && visitor.account === null) return false
  return page.for === 'person' || page.for.some((role) => visitor.roles.has(role))
}

/** The pages that stand in the navigation of this visitor; null: of nobody that is known. */
export const navigationOf = (pages: readonly ConsolePage[], visitor: Visitor | null): readonly NavGroup[] => {
  const groups = new Map<string, { path: string; label: string }[]>()
  for (const page of pages)
    if (page.nav && mayVisit(page, visitor)) {
      const { label, group = '', ofAccount = false } = page.nav
      if (ofAccount && visitor?.account === null) continue
      groups.set(group, [...(groups.get(group) ?? []), { path: page.path, label }])
    }
  return [...groups].map(([label, items]) => ({ label, items }))
}

/** How long a form may be filled in after its page was shown. */
const fillingMs = 10 * 60_000

/**
 * Whether the person showed who they are for this page, or signed in, within the last minutes.
 * @param graceMs what is added: time to fill in a form
 */
const isConfirmed = ({ path }: ConsolePage, { session }: Visitor, nowMs: number, graceMs = 0): boolean =>
  session.confirmedUntil !== null &&
  nowMs < Date.parse(session.confirmedUntil) + graceMs &&
  (session.confirmedAct === null || session.confirmedAct === path)

/** Whether a member of the staff looks at the pages of an account. */
export const isViewing = ({ session }: Visitor): boolean => session.viewing !== null

const confirmPath = (page: ConsolePage, path: string): string =>
  `/console/confirm?${new URLSearchParams({ act: page.path, to: path })}`

/** The page with its query, as a person goes back to it. */
const pathOf = ({ path, query }: Visit): string => consolePath(query.size === 0 ? path : `${path}?${query}`)

const barrier = (page: ConsolePage, visit: Visit): PageOutcome | null => {
  const { visitor } = visit
  if (mayVisit(page, visitor)) return null
  const cookies = [wantedCookie(pathOf(visit))]
  if (visitor === null)
    return { ...goTo(`/console/sign-in?${new URLSearchParams({ to: pathOf(visit) })}`), cookies }
  // Staff has its roles once it signs in with a passkey, or adds its first one.
  if (visitor.roles.size === 0) return { ...goTo('/console/passkeys'), cookies }
  return { kind: 'view', view: notAllowed, status: 403 }
}

/** What stands before a page: whose it is, and that they showed who they are. Null: nothing does. */
export const checkPageAccess = (page: ConsolePage, visit: Visit): PageOutcome | null => {
  const stopped = barrier(page, visit)
  if (stopped !== null) return stopped
  const { visitor } = visit
  if (!page.confirmed || !visitor || isViewing(visitor) || isConfirmed(page, visitor, visit.nowMs))
    return null
  return goTo(confirmPath(page, pathOf(visit)))
}

const refusedForm = (visit: Visit, text: string): PageOutcome => ({
  kind: 'view',
  status: 403,
  view: {
    title: 'Nothing was changed',
    body: html`<p class="said bad" role="alert">${text}</p><p><a href="${visit.path}">Back</a></p>`,
  },
})

const sentBefore =
  'This form was sent before, and counts once. Look whether it was done before you send another one.'

/** What stands before the work of a form. Null: nothing does. */
export const checkFormAccess = async (
  page: ConsolePage,
  visit: Visit,
  typed: FormInput,
  once: SingleUse,
): Promise<PageOutcome | null> => {
  const stopped = barrier(page, visit)
  if (stopped !== null) return stopped
  const { visitor } = visit
  if (visitor && !page.act?.harmless) {
    if (isViewing(visitor))
      return refusedForm(visit, 'You only look at this account: nothing can be changed in its place.')
    if (page.ofAccount && visitor.account?.blocked && !page.act?.whenBlocked)
      return refusedForm(visit, 'The account is blocked: it may read, not write.')
  }
  if (page.confirmed && visitor && !isConfirmed(page, visitor, visit.nowMs, fillingMs))
    return goTo(confirmPath(page, visit.path))
  const isFresh = async (): Promise<boolean> =>
    page.act?.once === 'by key' || once.spend(`form ${page.path} ${typed.key}`, dayMs)
  if (page.act?.once && !(typed.key !== '' && (await isFresh())))
    return goTo(page.show ? visit.path : '/console', sentBefore)
  return null
}

/** What may be used once: forms that are sent twice, answers of passkeys. */
export type SingleUse = {
  /** True the first time that `what` is spent, whichever process asks; it is remembered for `ms`. */
  spend(what: string, ms: number): Promise<boolean>
}

export const createSingleUse = ({
  pool,
  clock,
}: {
  readonly pool: pg.Pool
  readonly clock: Clock
}): SingleUse => ({
  spend: async (what, ms) => {
    const nowMs = clock()
    const hash = sha256(what)
    const { rowCount } = await pool.query(
      `with ended as (delete from vault.console_spent where expires_at < $2::timestamptz and hash <> $1::bytea)
       insert into vault.console_spent (hash, expires_at) values ($1::bytea, $3::timestamptz)
       on conflict (hash) do nothing`,
      [hash, isoTime(nowMs), isoTime(nowMs + ms)],
    )
    return rowCount === 1
  },
})

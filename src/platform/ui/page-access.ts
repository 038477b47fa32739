import type pg from 'pg'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { sha256 } from '../../kernel/digest.ts'
import { notAllowed } from './answer-page.ts'
import { consolePath, wantedCookie } from './cookies.ts'
import type { FormInput } from './form.ts'
import { html } from './html.ts'
import { type ConsolePage, goTo, type PageOutcome, type Visit, type Visitor } from './page.ts'

const dayMs = 86_400_000

/** Whether the visitor may see the page. */
export const mayVisit = (page: ConsolePage, visitor: Visitor | null): boolean => {
  if (page.for === 'anyone') return true
  if (visitor === null) return false
  if (page.ofAccount && visitor.account === null) return false
  return page.for === 'person' || page.for.some((role) => visitor.roles.has(role))
}

/** The time to fill in a form after its page was shown, milliseconds. */
const fillingMs = 10 * 60_000

/**
 * Whether the person confirmed their identity for this page, or signed in, within the last minutes.
 * @param graceMs additional time to fill in a form, milliseconds
 */
const isConfirmed = ({ path }: ConsolePage, { session }: Visitor, nowMs: number, graceMs = 0): boolean =>
  session.confirmedUntil !== null &&
  nowMs < Date.parse(session.confirmedUntil) + graceMs &&
  (session.confirmedAct === null || session.confirmedAct === path)

/** Whether a member of the staff views the pages of an account. */
export const isViewing = ({ session }: Visitor): boolean => session.viewing !== null

const confirmPath = (page: ConsolePage, path: string): string =>
  `/console/confirm?${new URLSearchParams({ act: page.path, to: path })}`

/** The path and query of the page, for a later return. */
const pathOf = ({ path, query }: Visit): string => consolePath(query.size === 0 ? path : `${path}?${query}`)

const barrier = (
  page: ConsolePage,
  visit: Visit,
  ended: { readonly ended?: 'yes' } = {},
): PageOutcome | null => {
  const { visitor } = visit
  if (mayVisit(page, visitor)) return null
  const cookies = [wantedCookie(pathOf(visit))]
  if (visitor === null)
    return { ...goTo(`/console/sign-in?${new URLSearchParams({ to: pathOf(visit), ...ended })}`), cookies }
  // Staff has its roles after a sign-in with a passkey, or after adding the first one.
  if (visitor.roles.size === 0) return { ...goTo('/console/passkeys'), cookies }
  return { kind: 'view', view: notAllowed, status: 403 }
}

/** Checks who may see a page, and the confirmation of their identity. Null: the page may be shown. */
export const checkPageAccess = (page: ConsolePage, visit: Visit): PageOutcome | null => {
  const blockingOutcome = barrier(page, visit)
  if (blockingOutcome !== null) return blockingOutcome
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
    body: html`<p class="message bad" role="alert">${text}</p><p><a href="${visit.path}">Back</a></p>`,
  },
})

const sentBefore = 'This form was sent before and counts once. Check the result before you send another one.'

/** Checks whether the action of a form may run. Null: it may. */
export const checkFormAccess = async (
  page: ConsolePage,
  visit: Visit,
  typed: FormInput,
  singleUse: SingleUse,
): Promise<PageOutcome | null> => {
  const blockingOutcome = barrier(page, visit, { ended: 'yes' })
  if (blockingOutcome !== null) return blockingOutcome
  const { visitor } = visit
  if (visitor && !page.act?.harmless) {
    if (isViewing(visitor))
      return refusedForm(visit, 'You are viewing this account. You cannot change anything.')
    if (page.ofAccount && visitor.account?.blocked && !page.act?.whenBlocked)
      return refusedForm(visit, 'The account is blocked: it can read but not change anything.')
  }
  if (page.confirmed && visitor && !isConfirmed(page, visitor, visit.nowMs, fillingMs))
    return goTo(confirmPath(page, visit.path))
  const isFresh = async (): Promise<boolean> =>
    page.act?.once === 'by key' || singleUse.spend(`form ${page.path} ${typed.key}`, dayMs)
  if (page.act?.once && !(typed.key !== '' && (await isFresh())))
    return goTo(page.show ? visit.path : '/console', sentBefore)
  return null
}

/** Values that may be used once: keys of forms, answers of passkeys. */
export type SingleUse = {
  /** True for the first call with `subject`, in any process. The value is stored for `ms` milliseconds. */
  spend(subject: string, ms: number): Promise<boolean>
}

export const createSingleUse = ({
  pool,
  clock,
}: {
  readonly pool: pg.Pool
  readonly clock: Clock
}): SingleUse => ({
  spend: async (subject, ms) => {
    const nowMs = clock()
    const hash = sha256(subject)
    const { rowCount } = await pool.query(
      `with ended as (delete from vault.console_spent where expires_at < $2::timestamptz and hash <> $1::bytea)
       insert into vault.console_spent (hash, expires_at) values ($1::bytea, $3::timestamptz)
       on conflict (hash) do nothing`,
      [hash, isoTime(nowMs), isoTime(nowMs + ms)],
    )
    return rowCount === 1
  },
})

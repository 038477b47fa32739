import { isoTime } from '../../kernel/clock.ts'
import { type Decision, decided, type Fold, refused } from '../../kernel/decider.ts'
import { audiences, noticeKinds } from './audiences.ts'
import type { NoticeEvent, NoticePublished } from './events.ts'
import { dateForms, namesDate } from './notice-dates.ts'

const maxTitleLength = 200
const maxBodyLength = 20_000
export const maxLabelLength = 64
const maxHrefLength = 2_000

/** A notice before its publication. */
export type NoticeDraft = Omit<NoticePublished['data'], 'publishedAt'>

export type NoticeRefusal =
  /** Each problem names its field and the accepted values. */
  | { readonly code: 'invalid_notice'; readonly problems: readonly string[] }
  /** Another notice with this id is already published. */
  | { readonly code: 'already_published' }
  | { readonly code: 'not_found' }

/** The notice after the decision. */
export type ShownNotice = { readonly notice: NoticePublished['data']; readonly expiredAt: string | null }

export type NoticeDecision = Decision<NoticeEvent, NoticeRefusal, ShownNotice>

// biome-ignore lint/suspicious/noControlCharactersInRegex: these characters are refused
const controlCharacters = /[\u0000-\u0008\u000b-\u001f\u007f]/

const isText = (text: string, maxLength: number): boolean =>
  text.trim() !== '' && text.length <= maxLength && text.isWellFormed() && !controlCharacters.test(text)

/** Whether a link is a path of the service's site, or an http address. Schemes that a browser executes are refused. */
const isHref = (href: string): boolean => {
  if (href.length > maxHrefLength || /[\s\p{C}\\]/u.test(href)) return false
  if (href.startsWith('/')) return !href.startsWith('//')
  try {
    return ['http:', 'https:'].includes(new URL(href).protocol)
  } catch {
    return false
  }
}

/** The problems of a notice. Each is a sentence that names the field and the accepted values. */
export const noticeProblems = (draft: NoticeDraft, nowMs: number): readonly string[] => {
  const { title, body, kind, audience, expiresAt, linkHref, linkLabel } = draft
  const checks: readonly (string | false)[] = [
    (!isText(title, maxTitleLength) || title.includes('\n')) &&
      `title must be one line of 1 to ${maxTitleLength} characters`,
    !isText(body, maxBodyLength) && `body must be 1 to ${maxBodyLength} characters`,
    !noticeKinds.includes(kind) && `kind must be one of ${noticeKinds.join(', ')}`,
    !audiences.includes(audience) && `audience must be one of ${audiences.join(', ')}`,
    kind === 'ACTION_REQUIRED' &&
      !namesDate(body) &&
      `the body of ACTION_REQUIRED must name the date by which something is to change, such as ${dateForms}`,
    expiresAt !== null &&
      !(Date.parse(expiresAt) > nowMs) &&
      `expiresAt must be an instant in the future, such as ${isoTime(nowMs + 86_400_000)}`,
    linkHref !== null &&
      !isHref(linkHref) &&
      'linkHref must be a path of the site such as /docs, or an address such as https://example.com/docs',
    linkLabel !== null &&
      !isText(linkLabel, maxLabelLength) &&
      `linkLabel must be 1 to ${maxLabelLength} characters`,
    linkLabel !== null && linkHref === null && 'linkLabel needs a linkHref',
  ]
  return checks.filter((problem) => problem !== false)
}

const isSameNotice = (notice: NoticePublished['data'], draft: NoticeDraft): boolean =>
  (Object.keys(draft) as (keyof NoticeDraft)[]).every((field) => notice[field] === draft[field])

/**
 * Publishes a notice once. The same notice again gives no event. Refusals: `invalid_notice`, `already_published`
 * (another notice has this id).
 */
export const decidePublication = (state: NoticeState, draft: NoticeDraft, nowMs: number): NoticeDecision => {
  if (state)
    return isSameNotice(state.notice, draft)
      ? { ...decided(), ...state }
      : refused({ code: 'already_published' })
  const problems = noticeProblems(draft, nowMs)
  if (problems.length > 0) return refused({ code: 'invalid_notice', problems })
  const notice = { ...draft, publishedAt: isoTime(nowMs) }
  return { ...decided({ type: 'NoticePublished', data: notice } as const), notice, expiredAt: null }
}

/** Removes a notice from the feed. A notice that is no longer in the feed does not change. Refusal: `not_found`. */
export const decideExpiration = (state: NoticeState, nowMs: number): NoticeDecision => {
  if (!state) return refused({ code: 'not_found' })
  const { notice } = state
  const isExpired = notice.expiresAt !== null && Date.parse(notice.expiresAt) <= nowMs
  if (state.expiredAt !== null || isExpired) return { ...decided(), ...state }
  const expiredAt = isoTime(nowMs)
  const event: NoticeEvent = { type: 'NoticeExpired', data: { noticeId: notice.noticeId, expiredAt } }
  return { ...decided(event), notice, expiredAt }
}

/** Null before it is published. */
export type NoticeState = {
  readonly notice: NoticePublished['data']
  /** When it was expired by hand, ISO 8601; null if it was not. */
  readonly expiredAt: string | null
} | null

/** The state of `notice-{id}`: two events at most, so it is never snapshotted. */
export const noticeFold: Fold<NoticeState, NoticeEvent> = {
  name: 'notice',
  version: 1,
  initial: null,
  evolve: (state, event) => {
    if (event.type === 'NoticePublished') return { notice: event.data, expiredAt: null }
    if (!state) throw new Error(`${event.type} on a notice that was never published`)
    return { ...state, expiredAt: event.data.expiredAt }
  },
}

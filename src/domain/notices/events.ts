import { defineEvent, type EventOf } from '../../kernel/event.ts'
import { id, oneOf, orAbsent, orNull, pastTime, text, time } from '../../kernel/event-fields.ts'
import { type Audience, audiences, noticeKinds } from './audiences.ts'

/** The properties of an account that decide its audiences. */
export type Member = {
  readonly reseller: boolean
  /** Whether one of its keys is active. */
  readonly hasActiveKey: boolean
}

/**
 * Whether an account belongs to an audience: `PARTNERS` are resellers, `CUSTOMERS` are all others, `DEVELOPERS` have an
 * active key (docs/reference/api.md, "Webhooks and notices"). A blocked account stays in its audiences.
 */
export const belongsTo = (audience: Audience, member: Member): boolean => {
  switch (audience) {
    case 'ALL':
      return true
    case 'PARTNERS':
      return member.reseller
    case 'CUSTOMERS':
      return !member.reseller
    case 'DEVELOPERS':
      return member.hasActiveKey
    default:
      return audience satisfies never
  }
}

/** Every audience that the account belongs to. */
export const audiencesOf = (member: Member): readonly Audience[] =>
  audiences.filter((audience) => belongsTo(audience, member))

/** `notice-{id}`: one notice of the service, for its audience or for one account. */
const stream = 'notice-{notice}'

const noticeId = id('ntc', 'the notice')

export const noticePublished = defineEvent('NoticePublished', {
  stream,
  means: 'The notice is in the feed, and its webhooks are due.',
  fields: {
    noticeId,
    title: text('in one line'),
    body: text('the full text'),
    kind: oneOf(noticeKinds, 'its category'),
    audience: oneOf(audiences, 'its audience'),
    accountId: orAbsent(
      id('acc', 'the only account that sees the notice, for any audience; absent: the whole audience'),
    ),
    publishedAt: pastTime('when'),
    expiresAt: orNull(time('when it leaves the feed; null: until an operator expires it')),
    linkHref: orNull(text("relative to the service's site, or absolute; null: none")),
    linkLabel: orNull(text('the text of the link; null: none')),
  },
})
export type NoticePublished = EventOf<typeof noticePublished>

export const noticeExpired = defineEvent('NoticeExpired', {
  stream,
  means: 'The notice left the feed.',
  fields: { noticeId, expiredAt: pastTime('when') },
})
export type NoticeExpired = EventOf<typeof noticeExpired>

export const noticeEventDefinitions = [noticePublished, noticeExpired] as const
export type NoticeEvent = EventOf<(typeof noticeEventDefinitions)[number]>

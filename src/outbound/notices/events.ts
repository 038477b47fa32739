import { type EventOf, fact } from '../../platform/eventstore/fact.ts'
import { id, oneOf, orAbsent, orNull, pastTime, text, time } from '../../terms/fields.ts'
import { audiences, noticeKinds } from './notice.ts'

/** `notice-{id}`: one notice of the service, for everybody that its audience names or for one account. */
const stream = 'notice-{notice}'

const noticeId = id('ntc', 'the notice')

export const noticePublished = fact('NoticePublished', {
  stream,
  means: 'The notice stands in the feed, and its webhooks are due.',
  fields: {
    noticeId,
    title: text('in one line'),
    body: text('the whole of it'),
    kind: oneOf(noticeKinds, 'what it is about'),
    audience: oneOf(audiences, 'who it is for'),
    accountId: orAbsent(
      id(
        'acc',
        'only this account sees it and is told of it, whatever the audience; absent: the audience does',
      ),
    ),
    publishedAt: pastTime('when'),
    expiresAt: orNull(
      time('when it drops out of the feed by itself; null: it stands until it is expired by hand'),
    ),
    linkHref: orNull(text("relative to the service's site, or absolute; null: none")),
    linkLabel: orNull(text('what the link says; null: none')),
  },
})
export type NoticePublished = EventOf<typeof noticePublished>

export const noticeExpired = fact('NoticeExpired', {
  stream,
  means: 'It drops out of the feed now.',
  fields: { noticeId, expiredAt: pastTime('when') },
})
export type NoticeExpired = EventOf<typeof noticeExpired>

export const noticeFacts = [noticePublished, noticeExpired] as const
export type NoticeEvent = EventOf<(typeof noticeFacts)[number]>

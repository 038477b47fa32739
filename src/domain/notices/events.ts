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
 * active key (docs/http-api.md, "Webhooks and notices"). A blocked account stays in its audiences.
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

export const noticeExpired = defineEvent('NoticeExpired', {
  stream,
  means: 'It drops out of the feed now.',
  fields: { noticeId, expiredAt: pastTime('when') },
})
export type NoticeExpired = EventOf<typeof noticeExpired>

export const noticeEventDefinitions = [noticePublished, noticeExpired] as const
export type NoticeEvent = EventOf<(typeof noticeEventDefinitions)[number]>

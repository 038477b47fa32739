import type { DomainEvent } from '../../platform/eventstore/event.ts'
import type { Audience, NoticeKind } from './notice.ts'

/** `notice-{id}`: one notice of the service, for everybody that its audience names or for one account. Times are ISO 8601 UTC. */
export type NoticePublished = DomainEvent<
  'NoticePublished',
  {
    readonly noticeId: string
    readonly title: string
    readonly body: string
    readonly kind: NoticeKind
    readonly audience: Audience
    /** Only this account sees it and is told of it, whatever the audience; left out: the audience does. */
    readonly accountId?: string
    readonly publishedAt: string
    /** When it drops out of the feed by itself; null: it stands until it is expired by hand. */
    readonly expiresAt: string | null
    /** Relative to the service's site, or absolute. */
    readonly linkHref: string | null
    readonly linkLabel: string | null
  }
>
/** It drops out of the feed now. */
export type NoticeExpired = DomainEvent<
  'NoticeExpired',
  { readonly noticeId: string; readonly expiredAt: string }
>

export type NoticeEvent = NoticePublished | NoticeExpired

import { z } from 'zod'
import { listAnnouncements, maxAnnouncements, type NoticeRow } from '../../../projections/notices.ts'
import { audiences, noticeKinds } from '../../domain/notices/audiences.ts'
import { audiencesOf } from '../../domain/notices/events.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import { wordQuery } from '../../platform/http/query.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'

const instant = z.string().meta({ format: 'date-time' })

/** A notice of the service (docs/reference/api.md, "Webhooks and notices"). */
export const Announcement = z
  .object({
    id: z.string(),
    title: z.string(),
    body: z.string(),
    kind: namedEnum('AnnouncementKind', noticeKinds).meta({
      description:
        'The kind of the notice. `ACTION_REQUIRED`: the account must change its integration by the date in the body.',
    }),
    audience: namedEnum('AnnouncementAudience', audiences),
    publishedAt: instant,
    expiresAt: instant.nullable().meta({
      description:
        'The time when the notice ended. Null: the notice is active, also if its end is planned. Expired notices are not in the feed.',
    }),
    linkHref: z
      .string()
      .nullable()
      .meta({ description: "A link, relative to the service's site or absolute." }),
    linkLabel: z.string().nullable(),
    unread: z.boolean().meta({
      description:
        'True: the notice was not opened in the console of the account. This request does not change the value.',
    }),
  })
  .meta({ id: 'Announcement' })
export type Announcement = z.infer<typeof Announcement>

/** The fields that operators see in addition to the id. Accounts see the end of a notice only after it has passed. */
export const noticeFields = (row: NoticeRow): Omit<Announcement, 'id' | 'unread'> => ({
  title: row.title,
  body: row.body,
  kind: row.kind,
  audience: row.audience,
  publishedAt: row.publishedAt,
  expiresAt: row.expiresAt,
  linkHref: row.linkHref,
  linkLabel: row.linkLabel,
})

export const announcementExample: Announcement = {
  id: 'ntc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b',
  title: 'Unknown fields of a body are refused',
  body: 'From 2026-12-01 on, a write with a field that its endpoint does not read is answered 400 unknown_field.',
  kind: 'ACTION_REQUIRED',
  audience: 'DEVELOPERS',
  publishedAt: '2026-11-21T02:30:00.000Z',
  expiresAt: null,
  linkHref: '/docs',
  linkLabel: 'Which fields',
  unread: true,
}

/** Notices: docs/reference/api.md, "Webhooks and notices". */
export const noticeRoutes = ({
  reads,
  db,
  clock,
}: {
  readonly reads: Pick<Reads, 'settledHere'>
  readonly db: Db
  readonly clock: Clock
}): readonly Route[] => [
  route({
    method: 'GET',
    path: '/api/v1/announcements',
    operationId: 'listAnnouncements',
    summary: 'List the notices of the service',
    description: `The notices of the service for the account, newest first, at most ${maxAnnouncements}. Each account gets the notices for \`ALL\` and for its own audiences: \`DEVELOPERS\` are accounts with an API key, \`PARTNERS\` are resellers, \`CUSTOMERS\` are all other accounts. A notice for one account, e.g. about its disabled webhook endpoint, is visible to that account only. Expired notices are left out. The feed is not a queue: poll it at most once an hour, or register a webhook for \`announcement.published\`.`,
    tag: 'Account',
    access: 'any-key',
    writes: false,
    customer: 'unaffected',
    query: z.object({
      kind: wordQuery(noticeKinds, 'Only notices of this kind.', 'AnnouncementKind').optional(),
      audience: wordQuery(
        audiences,
        'Only notices for this audience. The list is empty if the account is not part of the audience.',
        'AnnouncementAudience',
      ).optional(),
    }),
    responses: {
      200: {
        description: 'The active notices.',
        body: z.object({ announcements: z.array(Announcement) }).meta({ id: 'Announcements' }),
        example: { announcements: [announcementExample] },
      },
    },
    errors: [],
    handler: async ({ caller, query: { kind, audience }, after }) => {
      const { accountId: account, reseller } = caller
      await reads.settledHere(account, after ?? 0)
      // The request was authenticated with a key, so the caller has an active one.
      const ownAudiences = audiencesOf({ reseller, hasActiveKey: true })
      const requestedAudiences = ownAudiences.filter((one) => audience === undefined || one === audience)
      const found = await listAnnouncements(
        db,
        account,
        { audiences: requestedAudiences, kind },
        isoTime(clock()),
      )
      const announcements = found.map((row) => ({
        id: row.noticeId,
        ...noticeFields(row),
        // The query returns only notices that have not expired.
        expiresAt: null,
        unread: row.unread,
      }))
      return { status: 200, body: { announcements } }
    },
  }),
]

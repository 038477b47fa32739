import { z } from 'zod'
import type { Reads } from '../../../projections/engine/reads.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { wordQuery } from '../../platform/http/query.ts'
import { type Route, route } from '../../platform/http/route.ts'
import { audiences, audiencesOf, noticeKinds } from './notice.ts'
import { listAnnouncements, maxAnnouncements, type NoticeQueries } from './queries.ts'
import { Announcement, announcementExample, noticeFields } from './record.ts'

/** Notices: docs/http-api.md, "Webhooks and notices". */
export const noticeRoutes = ({
  reads,
  db,
  clock,
}: {
  readonly reads: Pick<Reads, 'settledHere'>
  readonly db: NoticeQueries
  readonly clock: Clock
}): readonly Route[] => [
  route({
    method: 'GET',
    path: '/api/v1/announcements',
    operationId: 'listAnnouncements',
    summary: 'List notices of the service',
    description: `What the service has to say to the account, newest first, at most ${maxAnnouncements}. Each account sees the notices for \`ALL\` and for its own audiences: \`DEVELOPERS\` has an API key, \`PARTNERS\` is a reseller, \`CUSTOMERS\` is not one. A notice for one account, such as that its webhook endpoint was disabled, is seen by that account only. Expired notices are left out. The feed is not a queue: poll at most once an hour, or register a webhook for \`announcement.published\`.`,
    tag: 'Account',
    access: 'any-key',
    writes: false,
    customer: 'unaffected',
    query: z.object({
      kind: wordQuery(noticeKinds, 'Only notices of this kind.').optional(),
      audience: wordQuery(
        audiences,
        'Only notices for this audience; none for one that the account does not belong to.',
      ).optional(),
    }),
    responses: {
      200: {
        description: 'The notices that stand.',
        body: z.object({ announcements: z.array(Announcement) }).meta({ id: 'Announcements' }),
        example: { announcements: [announcementExample] },
      },
    },
    errors: [],
    handler: async ({ caller, query: { kind, audience }, after }) => {
      const { accountId: account, reseller } = caller
      await reads.settledHere(account, after ?? 0)
      // The caller has a key that works: it came with it.
      const own = audiencesOf({ reseller, hasActiveKey: true })
      const wanted = own.filter((one) => audience === undefined || one === audience)
      const found = await listAnnouncements(db, account, { audiences: wanted, kind }, isoTime(clock()))
      const announcements = found.map((row) => ({
        id: row.notice_id,
        ...noticeFields(row),
        // None that is found has expired.
        expiresAt: null,
        unread: row.unread,
      }))
      return { status: 200, body: { announcements } }
    },
  }),
]

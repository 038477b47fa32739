import { z } from 'zod'
import type { NoticeRow } from '../../../projections/notices.ts'
import { audiences, noticeKinds } from './notice.ts'

const instant = z.string().meta({ format: 'date-time' })

/** A notice of the service (docs/http-api.md, "Webhooks and notices"). */
export const Announcement = z
  .object({
    id: z.string(),
    title: z.string(),
    body: z.string(),
    kind: z.enum(noticeKinds).meta({
      description: '`ACTION_REQUIRED`: an integration has something to change, by the date in the body.',
    }),
    audience: z.enum(audiences),
    publishedAt: instant,
    expiresAt: instant.nullable().meta({
      description:
        'Null while the notice stands, also when its end is planned: an expired notice drops out of the feed.',
    }),
    linkHref: z.string().nullable().meta({ description: "Relative to the service's site, or absolute." }),
    linkLabel: z.string().nullable(),
    unread: z.boolean().meta({
      description:
        'True until somebody of the account opens the notice in the dashboard; asking here changes nothing.',
    }),
  })
  .meta({ id: 'Announcement' })
export type Announcement = z.infer<typeof Announcement>

/** What an operator is shown of a notice, beside its id; accounts see the end of a notice only once it has come. */
export const noticeFields = (row: NoticeRow): Omit<Announcement, 'id' | 'unread'> => ({
  title: row.title,
  body: row.body,
  kind: row.kind,
  audience: row.audience,
  publishedAt: row.published_at,
  expiresAt: row.expires_at,
  linkHref: row.link_href,
  linkLabel: row.link_label,
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

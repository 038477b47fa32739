/** The kinds of notices (docs/reference/api.md, "Webhooks and notices"). */
export const noticeKinds = [
  'INFO',
  'MAINTENANCE',
  'INCIDENT',
  'RELEASE',
  'PRICING',
  'ACTION_REQUIRED',
] as const
export type NoticeKind = (typeof noticeKinds)[number]

/** The audiences of notices (docs/reference/api.md, "Webhooks and notices"). */
export const audiences = ['ALL', 'CUSTOMERS', 'PARTNERS', 'DEVELOPERS'] as const
export type Audience = (typeof audiences)[number]

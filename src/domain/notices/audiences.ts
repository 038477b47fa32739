/** What a notice is about (docs/http-api.md, "Webhooks and notices"). */
export const noticeKinds = [
  'INFO',
  'MAINTENANCE',
  'INCIDENT',
  'RELEASE',
  'PRICING',
  'ACTION_REQUIRED',
] as const
export type NoticeKind = (typeof noticeKinds)[number]

/** Who a notice is for (docs/http-api.md, "Webhooks and notices"). */
export const audiences = ['ALL', 'CUSTOMERS', 'PARTNERS', 'DEVELOPERS'] as const
export type Audience = (typeof audiences)[number]

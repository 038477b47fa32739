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

/** What of an account says which audiences it belongs to. */
export type Member = {
  readonly reseller: boolean
  /** One of its keys is not revoked. */
  readonly hasActiveKey: boolean
}

/**
 * Whether an account belongs to an audience: `PARTNERS` is a reseller, `CUSTOMERS` is not one, `DEVELOPERS` has an
 * active key (docs/http-api.md, "Webhooks and notices"). A blocked account belongs to what it belonged to before.
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

/** The resources that can be explained, by the prefix of their id. `acc_…` and `cus_…` are accounts of the books. */
const resources = {
  ord: 'order',
  dep: 'deposit',
  sub: 'subscription',
  pln: 'plan',
  prx: 'proxy',
  ref: 'refund',
  scr: 'scrape',
  crd: 'gateway',
  whs: 'webhook',
  key: 'key',
  ntc: 'notice',
} as const

export type ResourcePrefix = keyof typeof resources

/** For help and messages. */
export const resourceIds = Object.keys(resources)
  .map((prefix) => `${prefix}_`)
  .join(', ')

/** The prefix of an id; null for an id of another kind. */
export const resourcePrefix = (id: string): ResourcePrefix | null => {
  const prefix = id.slice(0, 3)
  return /^[a-z]{3}_\w+$/.test(id) && Object.hasOwn(resources, prefix) ? (prefix as ResourcePrefix) : null
}

/** The kind of a resource id, e.g. `deposit`; null for an id that `findTrail` does not support. */
export const resourceKind = (id: string): string | null => {
  const prefix = resourcePrefix(id)
  return prefix && resources[prefix]
}

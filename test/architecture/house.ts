/**
 * The house, from the ground up: every floor, and on each floor its rooms. A file imports what stands above its own
 * line here, or in its own room, and nothing else. So no two rooms ever need each other, and a room can be read with
 * nothing but what is listed before it.
 *
 * A new room gets a line where its imports allow it. When a file needs something further down this list, move the shared
 * part up (a word to `terms`, an event or a rule to the room's facts), or have `src/app` hand it in.
 */
export const house = [
  { floor: 'kernel', rooms: ['kernel'] },
  { floor: 'terms', rooms: ['terms'] },
  {
    floor: 'platform',
    rooms: ['outgoing', 'postgres', 'vault', 'eventstore', 'work', 'pages', 'http', 'cli'],
  },
  {
    floor: 'facts',
    rooms: [
      'market/accounts',
      'market/catalog',
      'market/stock',
      'market/plans',
      'market/subscriptions',
      'money/payments',
      'money/ledger',
      'market/orders',
      'money/deposits',
      'market/resellers',
      'scrapers/batches',
      'outbound/notices',
      'outbound/webhooks',
      'gateway/lines',
      'gateway/exits',
      'freelist/record',
      'scrapers/catalog',
      'scrapers/calls',
      'books/finance',
      'books/periods',
      'books/audit',
      'console/people',
    ],
  },
  { floor: 'engine', rooms: ['engine'] },
  { floor: 'read models', rooms: ['projections'] },
  {
    floor: 'services',
    rooms: [
      'sandbox',
      'market/labels',
      'market/accounts',
      'market/customers',
      'market/catalog',
      'market/stock',
      'market/plans',
      'money/ledger',
      'money/payments',
      'money/deposits',
      'books/finance',
      'books/reconcile',
      'books/periods',
      'books/audit',
      'books/exports',
      'books/witness',
      'books/backup',
      'market/resellers',
      'market/orders',
      'market/proxies',
      'market/subscriptions',
      'outbound/notices',
      'outbound/messaging',
      'outbound/webhooks',
      'gateway/lines',
      'gateway/proxy',
      'gateway/exits',
      'gateway/desk',
      'gateway/budget',
      'gateway/access',
      'scrapers/provider',
      'scrapers/calls',
      'scrapers/batches',
      'scrapers/usage',
      'freelist/record',
      'freelist/judge',
      'freelist/probe',
      'freelist/sources',
      'freelist/checker',
      'freelist/ip-data',
      'freelist/list',
      'freelist/lookup',
      'freelist/check',
      'freelist/networks',
      'freelist/mcp',
      'console/islands',
      'console/people',
      'console/session',
      'console/mail',
      'console/frame',
      'console/pages',
      'console/sign-in',
      'console/customer',
      'console/plans',
      'console/reseller',
      'console/addresses',
      'console/subscriptions',
      'console/scrapers',
      'console/webhooks',
      'console/public',
      'console/staff',
      'console/operator',
      'console/finance',
    ],
  },
  {
    floor: 'edges',
    rooms: [
      'market/accounts',
      'market/catalog',
      'market/stock',
      'money/ledger',
      'money/payments',
      'money/deposits',
      'market/customers',
      'market/resellers',
      'market/orders',
      'market/plans',
      'market/proxies',
      'gateway/budget',
      'market/subscriptions',
      'outbound/notices',
      'outbound/webhooks',
      'books/finance',
      'books/reconcile',
      'books/periods',
      'books/exports',
      'books/witness',
      'books/audit',
      'books/backup',
      'gateway/exits',
      'freelist/sources',
      'gateway/lines',
      'scrapers/catalog',
      'scrapers/calls',
      'scrapers/batches',
      'scrapers/usage',
      'freelist/list',
      'freelist/lookup',
      'freelist/check',
      'freelist/networks',
      'freelist/mcp',
      'console/session',
      'console/staff',
    ],
  },
  { floor: 'app', rooms: ['app', 'entry points'] },
] as const

export type Floor = (typeof house)[number]['floor']

/** What is stored and how it is decided: pure, so that every replay gives the same. By name, in every room. */
const factName =
  /^(([a-z]+-)?(events|decide|fold|movement)|decide-[a-z]+|place|awaited|complete|(land-)?refund(-share)?|extended|arbiter|crediting|postings)$/

/** Facts under names of their own. */
const moreFacts: Readonly<Record<string, readonly string[]>> = {
  'books/finance': ['entries'],
  'console/people': ['lifetime'],
  'freelist/record': ['endpoint'],
  'gateway/lines': ['targeting', 'slug', 'targeting-rules', 'username'],
  'market/catalog': [
    'availability',
    'catalog',
    'file',
    'problem',
    'product',
    'rates',
    'refusal',
    'rules',
    'schema',
    'targeting',
  ],
  'market/plans': ['low'],
  'market/subscriptions': ['names'],
  'money/deposits': ['cancel-reason'],
  'money/ledger': [
    'adjustment-reason',
    'books',
    'debt-change',
    'decision',
    'movements',
    'purse',
    'snapshot',
    'spend',
    'state',
  ],
  'money/payments': ['rails', 'reports'],
  'outbound/notices': ['dates', 'notice'],
  'outbound/webhooks': ['causes', 'event-names', 'outcome-events'],
  'scrapers/catalog': [
    'row',
    'inputs',
    'table',
    'facebook',
    'instagram',
    'linkedin',
    'links',
    'media',
    'networks',
    'reddit',
    'tiktok',
    'twitter',
    'web',
    'youtube',
    'check',
    'position',
    'price',
  ],
}

/** HTTP operations and commands with what only they need. */
const edgeName = /^(([a-z-]+-)?(routes|cli|schemas)|reports|route-input|cli-[a-z-]+|declarations)$/

/** Where a file stands. */
export type Place = { readonly floor: Floor; readonly room: string }

const inRoom = (room: string, name: string): Place => {
  if (factName.test(name) || moreFacts[room]?.includes(name)) return { floor: 'facts', room }
  return { floor: edgeName.test(name) ? 'edges' : 'services', room }
}

/** @param file its path from the root, e.g. `src/domain/orders/decide-placement.ts` */
export const placeOf = (file: string): Place => {
  const parts = file.replace(/\.ts$/, '').split('/')
  const [top = '', first = '', second = '', ...rest] = parts
  const name = parts.at(-1) ?? ''
  if (top === 'projections')
    return parts.length > 2
      ? { floor: 'engine', room: 'engine' }
      : { floor: 'read models', room: 'projections' }
  if (parts.length === 2) return { floor: 'app', room: 'entry points' }
  if (first === 'kernel' || first === 'terms' || first === 'app') return { floor: first, room: first }
  if (first === 'platform') return { floor: 'platform', room: rest.length > 0 ? second : '' }
  if (first === 'sandbox') return { floor: 'services', room: 'sandbox' }
  return inRoom(`${first}/${second}`, rest.length > 0 ? name : '')
}

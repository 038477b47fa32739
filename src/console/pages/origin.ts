import type { IncomingHttpHeaders } from 'node:http'

const loopbackNames: ReadonlySet<string> = new Set(['127.0.0.1', '[::1]', 'localhost'])

/** Where a request belongs: here, at the console's own address, or nowhere. */
export type Place = 'here' | 'elsewhere' | 'strange'

/**
 * Whether the request came to the console's own address. Cookies and passkeys belong to one name; `elsewhere` is another
 * name of this machine, from which a browser is sent on.
 */
export const placeOf = ({ host }: IncomingHttpHeaders, origin: string): Place => {
  const own = new URL(origin)
  if (host === own.host) return 'here'
  const asked = host === undefined ? null : URL.parse(`http://${host}`)
  const local = asked !== null && loopbackNames.has(asked.hostname) && loopbackNames.has(own.hostname)
  return local ? 'elsewhere' : 'strange'
}

/**
 * Whether a form was sent by a page of ours: what the browser says of it (Fetch Metadata), else its `Origin`. A request that
 * says neither is no browser's of today and is refused.
 */
export const isOwnForm = (headers: IncomingHttpHeaders, origin: string): boolean => {
  const site = headers['sec-fetch-site']
  if (site !== undefined) return site === 'same-origin' || site === 'none'
  return headers.origin === origin
}

/** Where pages for everybody stand, beside `/console`. */
export const publicRoots = [
  '/free-proxies',
  '/networks',
  '/proxy-checker',
  '/ip-lookup',
  '/prices',
  '/status',
] as const

const isOurs = (path: string): boolean =>
  path === '/' || ['/console', ...publicRoots].some((root) => path === root || path.startsWith(`${root}/`))

/** A path of our pages to go on to, or the start for anything else: no other site, no other part of this one. */
export const consolePath = (to: string | null): string => {
  if (to === null || to.length > 500 || !/^[\x21-\x5b\x5d-\x7e]*$/.test(to)) return '/console'
  const path = to.split('?')[0] ?? ''
  return !isOurs(path) || path.includes('//') || path.includes('..') ? '/console' : to
}

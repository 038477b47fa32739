import type { IncomingHttpHeaders } from 'node:http'

/**
 * Cookies of the console. The prefix has a browser refuse one that another host or a page without TLS set
 * (RFC 6265bis, 4.1.3.2); browsers take it on http://localhost too.
 */
export const cookieNames = {
  session: '__Host-farebox_session',
  /** The browser that asked for a sign-in link. */
  asking: '__Host-farebox_asking',
  /** The page that somebody wanted before they could see it. */
  wanted: '__Host-farebox_wanted',
  flash: '__Host-farebox_flash',
  theme: '__Host-farebox_theme',
  /** The time zone of times; none: UTC. */
  zone: '__Host-farebox_zone',
} as const

type CookieName = keyof typeof cookieNames

/** The values of the cookies that a request carries. One that is sent twice is none: somebody planted one of them. */
export const readCookies = (header: string | undefined): Readonly<Record<CookieName, string | null>> => {
  const sent = (header ?? '').split(';').map((pair) => {
    const at = pair.indexOf('=')
    return at === -1 ? ['', ''] : [pair.slice(0, at).trim(), pair.slice(at + 1).trim()]
  })
  const found = (name: CookieName): string | null => {
    const values = sent.filter(([each]) => each === cookieNames[name])
    return values.length === 1 ? (values[0]?.[1] ?? null) : null
  }
  return {
    session: found('session'),
    asking: found('asking'),
    wanted: found('wanted'),
    flash: found('flash'),
    theme: found('theme'),
    zone: found('zone'),
  }
}

/**
 * `Set-Cookie` of a value for so many seconds; none for a session of the browser.
 * @param sameSite `Lax` where a link from elsewhere is to find the person signed in
 */
export const setCookie = (
  name: CookieName,
  value: string,
  sameSite: 'Lax' | 'Strict',
  maxAgeS?: number,
): string =>
  `${cookieNames[name]}=${value}; Path=/; Secure; HttpOnly; SameSite=${sameSite}${maxAgeS === undefined ? '' : `; Max-Age=${maxAgeS}`}`

export const dropCookie = (name: CookieName): string => setCookie(name, '', 'Lax', 0)

/** A sentence for the next page. */
export const flashCookie = (text: string): string => setCookie('flash', encodeURIComponent(text), 'Lax', 60)

const maxFlash = 300

export const flashOf = (value: string | null): string | null => {
  if (value === null || value === '' || value.length > 3 * maxFlash) return null
  try {
    return decodeURIComponent(value).slice(0, maxFlash)
  } catch {
    return null
  }
}

const loopbackNames: ReadonlySet<string> = new Set(['127.0.0.1', '[::1]', 'localhost'])

/** Where a request belongs: here, at the console's own address, or nowhere. */
export type RequestOrigin = 'here' | 'elsewhere' | 'strange'

/**
 * Whether the request came to the console's own address. Cookies and passkeys belong to one name; `elsewhere` is another
 * name of this machine, from which a browser is sent on.
 */
export const requestOriginOf = ({ host }: IncomingHttpHeaders, origin: string): RequestOrigin => {
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

/** As long as a sign-in link is good. */
const wantedS = 600

/** The page that somebody goes on to once they are signed in, or have their first passkey. */
export const wantedCookie = (to: string): string =>
  setCookie('wanted', encodeURIComponent(to), 'Strict', wantedS)

export const wantedOf = (value: string | null): string => {
  try {
    return consolePath(value && decodeURIComponent(value))
  } catch {
    return '/console'
  }
}

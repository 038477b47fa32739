import type { IncomingHttpHeaders } from 'node:http'

/**
 * Cookies of the console. The prefix makes a browser refuse a cookie that another host or a page without TLS set (RFC
 * 6265bis, 4.1.3.2). Browsers accept it on http://localhost too.
 */
export const cookieNames = {
  session: '__Host-farebox_session',
  /** The browser that requested a sign-in link. */
  asking: '__Host-farebox_asking',
  /** The page that was requested before the sign-in. */
  wanted: '__Host-farebox_wanted',
  flash: '__Host-farebox_flash',
  theme: '__Host-farebox_theme',
  /** The time zone for times; none: UTC. */
  zone: '__Host-farebox_zone',
} as const

type CookieName = keyof typeof cookieNames

/**
 * The values of the cookies of a request. A cookie that is sent twice is ignored, because one of the two may be
 * planted.
 */
export const readCookies = (header: string | undefined): Readonly<Record<CookieName, string | null>> => {
  const pairs = (header ?? '').split(';').map((pair) => {
    const at = pair.indexOf('=')
    return at === -1 ? ['', ''] : [pair.slice(0, at).trim(), pair.slice(at + 1).trim()]
  })
  const found = (name: CookieName): string | null => {
    const values = pairs.filter(([each]) => each === cookieNames[name])
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
 * A `Set-Cookie` line.
 * @param sameSite `Lax` if a link from another site must find the person signed in
 * @param maxAgeS the lifetime in seconds; left out: until the end of the browser session
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

/** The address of a request: the console's own, another name of this machine, or an unknown one. */
type RequestOrigin = 'here' | 'elsewhere' | 'strange'

/**
 * Whether the request came to the console's own address. Cookies and passkeys belong to one name. `elsewhere` is
 * another name of this machine, from which a browser is redirected.
 */
export const requestOriginOf = ({ host }: IncomingHttpHeaders, origin: string): RequestOrigin => {
  const ownUrl = new URL(origin)
  if (host === ownUrl.host) return 'here'
  const requestUrl = host === undefined ? null : URL.parse(`http://${host}`)
  const local =
    requestUrl !== null && loopbackNames.has(requestUrl.hostname) && loopbackNames.has(ownUrl.hostname)
  return local ? 'elsewhere' : 'strange'
}

/**
 * Whether a page of the console sent the form: by the browser's Fetch Metadata, else by its `Origin`. A request with
 * neither is not from a current browser and is refused.
 */
export const isOwnForm = (headers: IncomingHttpHeaders, origin: string): boolean => {
  const site = headers['sec-fetch-site']
  if (site !== undefined) return site === 'same-origin' || site === 'none'
  return headers.origin === origin
}

/** The roots of public pages outside of `/console`. */
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

/**
 * The path of a console or public page to continue with, else `/console`. It never leads to another site or to another
 * part of this one.
 */
export const consolePath = (to: string | null): string => {
  if (to === null || to.length > 500 || !/^[\x21-\x5b\x5d-\x7e]*$/.test(to)) return '/console'
  const path = to.split('?')[0] ?? ''
  return !isOurs(path) || path.includes('//') || path.includes('..') ? '/console' : to
}

/** The lifetime of a sign-in link, seconds. */
const wantedMaxAgeS = 600

/** Stores the page to continue with after the sign-in, or after adding the first passkey. */
export const wantedCookie = (to: string): string =>
  setCookie('wanted', encodeURIComponent(to), 'Strict', wantedMaxAgeS)

export const wantedOf = (value: string | null): string => {
  try {
    return consolePath(value && decodeURIComponent(value))
  } catch {
    return '/console'
  }
}

/**
 * Cookies of the console. The prefix has a browser refuse one that another host or a page without TLS set
 * (RFC 6265bis, 4.1.3.2); browsers take it on http://localhost too.
 */
export const cookieNames = {
  session: '__Host-farebox_session',
  /** The browser that asked for a sign-in link. */
  asking: '__Host-farebox_asking',
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

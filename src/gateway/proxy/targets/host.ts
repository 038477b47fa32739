import { isIP } from 'node:net'

/** Where a client wants to go. */
export type Target = {
  /** A name in lower case without the last dot, or an address without brackets. */
  readonly host: string
  /** 0: a name. */
  readonly family: 0 | 4 | 6
  readonly port: number
}

const maxNameLength = 253
const name = /^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*$/
/** `127.1`, `0x7f000001` and `2130706433` are addresses to whoever resolves them with the C library, and names to nobody. */
const endsInNumber = /(?:^|\.)(?:\d+|0x[0-9a-f]*)$/

/** @param text of a name or an address, IPv6 without brackets. @returns null when it is neither */
export const targetOf = (text: string, port: number): Target | null => {
  if (!(port >= 1 && port <= 65_535)) return null
  const family = isIP(text)
  // A zone is about an interface of ours.
  if (family !== 0) return text.includes('%') ? null : { host: text, family: family as 4 | 6, port }
  const host = (text.endsWith('.') ? text.slice(0, -1) : text).toLowerCase()
  if (host.length > maxNameLength || !name.test(host) || endsInNumber.test(host)) return null
  return { host, family: 0, port }
}

const digits = /^\d{1,5}$/

/** Of `host:port` or `[address]:port`; the port may be left out where there is a usual one. */
export const parseAuthority = (text: string, usualPort: number | null): Target | null => {
  const bracketed = text.startsWith('[')
  const end = bracketed ? text.indexOf(']') : text.indexOf(':')
  if (bracketed && end === -1) return null
  const host = bracketed ? text.slice(1, end) : end === -1 ? text : text.slice(0, end)
  const rest = bracketed ? text.slice(end + 1) : end === -1 ? '' : text.slice(end)
  if (bracketed !== (isIP(host) === 6)) return null
  if (rest === '') return usualPort === null ? null : targetOf(host, usualPort)
  if (!rest.startsWith(':') || !digits.test(rest.slice(1))) return null
  return targetOf(host, Number(rest.slice(1)))
}

/** As it stands in a request line or a `Host` field. */
export const hostText = ({ host, family }: Target): string => (family === 6 ? `[${host}]` : host)

import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { Protocol } from '../../domain/free-list/endpoint.ts'

/** A proxy in text form. */
export type WrittenProxy = {
  /** An address in its shortest form, or a lower-case name. */
  readonly host: string
  readonly port: number
  readonly login: { readonly username: string; readonly password: string } | null
  /** From its scheme; null without one. */
  readonly protocol: Protocol | null
}

export const maxProxyText = 512

export const proxyForms =
  'host:port, user:password@host:port, host:port:user:password, or either of the first two behind http://, https://, socks4:// or socks5://; an IPv6 address stands in brackets'

const schemes: Readonly<Record<string, Protocol>> = {
  http: 'http',
  https: 'https',
  socks4: 'socks4',
  socks4a: 'socks4',
  socks5: 'socks5',
  socks5h: 'socks5',
}

const hostAndPort = /^(\[[0-9a-f:.]+\]|[^:@[\]/?#\s]+):(\d{1,5})$/i
const withLoginBehind = /^((?:\[[0-9a-f:.]+\]|[^:@[\]/?#\s]+):\d{1,5}):([^:\s]+):(\S+)$/i

/**
 * Converts every notation that a URL accepts for IPv4 (decimal, octal, hex, short) to an address. The rest is a name.
 */
const hostOf = (text: string): string | null => {
  const url = URL.parse(`http://${text}/`)
  if (url === null || url.hostname === '') return null
  const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
  return isIP(host) === 0 ? host : ipaddr.process(host).toString()
}

const decoded = (text: string): string | null => {
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}

const splitLogin = (
  text: string,
): { readonly place: string; readonly login: WrittenProxy['login'] } | null => {
  const at = text.lastIndexOf('@')
  if (at < 0) {
    const behind = withLoginBehind.exec(text)
    const [, addressText = '', username = '', password = ''] = behind ?? []
    return behind === null
      ? { place: text, login: null }
      : { place: addressText, login: { username, password } }
  }
  const [name = '', ...passwordParts] = text.slice(0, at).split(':')
  const [username, password] = [decoded(name), decoded(passwordParts.join(':'))]
  return username === null || username === '' || password === null
    ? null
    : { place: text.slice(at + 1), login: { username, password } }
}

/** RFC 1929 has one byte for the length of each. */
const isWithinLimits = ({ username, password }: { username: string; password: string }): boolean =>
  Buffer.byteLength(username) <= 255 && Buffer.byteLength(password) <= 255

/** Parses the text; null if it matches none of `proxyForms`. Nothing is resolved. */
export const readProxy = (text: string): WrittenProxy | null => {
  const [, scheme, behind] = /^(?:([a-z0-9]+):\/\/)?(.*?)\/?$/is.exec(text.trim()) ?? []
  const protocol = scheme === undefined ? null : schemes[scheme.toLowerCase()]
  if (behind === undefined || protocol === undefined || text.length > maxProxyText) return null
  const split = splitLogin(behind)
  const [, hostText = '', portText = ''] = hostAndPort.exec(split?.place ?? '') ?? []
  const port = Number(portText)
  const host = hostText === '' ? null : hostOf(hostText)
  if (split === null || host === null || port < 1 || port > 65_535) return null
  if (split.login !== null && !isWithinLimits(split.login)) return null
  return { host, port, login: split.login, protocol }
}

import { hostText, parseAuthority, type Target } from '../targets.ts'
import type { Framing } from './body.ts'
import {
  BadMessage,
  connectionOf,
  type Field,
  type Head,
  listOf,
  singleHeader,
  splitRequestLine,
} from './message-head.ts'

type Common = {
  readonly target: Target
  /** `Proxy-Authorization`, as received. */
  readonly authorization: string | null
}

export type ConnectRequest = Common & { readonly kind: 'connect' }

/** A request in absolute form. */
export type ForwardRequest = Common & {
  readonly kind: 'forward'
  readonly method: string
  readonly version: 0 | 1
  /** The head that the target receives. */
  readonly head: string
  /** Size of the received head, bytes. */
  readonly length: number
  readonly framing: Framing
  /** Whether the client may send more requests on this connection. */
  readonly persistent: boolean
  readonly upgrade: string | null
  /** The request is idempotent and has no body, so it can be sent again on a second connection. */
  readonly repeatable: boolean
}

/** Valid HTTP with a scheme that is not forwarded. */
export class SchemeRefused extends Error {
  override readonly name = 'SchemeRefused'
  readonly authorization: string | null
  constructor(authorization: string | null) {
    super('scheme refused')
    this.authorization = authorization
  }
}

const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//
const repeatableMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])
const httpPort = 80
/** `ws` is HTTP with an Upgrade (RFC 6455 section 4.1). */
const forwardedSchemes: ReadonlySet<string> = new Set(['http', 'ws'])

const badTarget = (): BadMessage =>
  new BadMessage('the target is neither a host name nor an address with a port')

const parseConnect = (authority: string, fields: Head['fields'], version: 0 | 1): ConnectRequest => {
  const target = parseAuthority(authority, null)
  if (target === null) throw badTarget()
  const framing = requestFraming(fields, version)
  if (framing !== null && framing.kind !== 'none') throw new BadMessage('CONNECT has no body')
  singleHeader(fields, 'host')
  return { kind: 'connect', target, authorization: singleHeader(fields, 'proxy-authorization') }
}

/** Splits a URL at the first `/` or `?` after the authority. */
const splitUrl = (rest: string): { readonly authority: string; readonly path: string } => {
  const at = rest.search(/[/?]/)
  if (at === -1) return { authority: rest, path: '' }
  const path = rest.slice(at)
  return { authority: rest.slice(0, at), path: path.startsWith('?') ? `/${path}` : path }
}

const parseForward = (
  { fields, length }: Head,
  method: string,
  url: string,
  version: 0 | 1,
): ForwardRequest => {
  const schemeMatch = scheme.exec(url)
  if (schemeMatch === null)
    throw new BadMessage('this is a proxy: the request line has to name the whole URL, http://host/path')
  const authorization = singleHeader(fields, 'proxy-authorization')
  if (!forwardedSchemes.has(schemeMatch[1]!.toLowerCase())) throw new SchemeRefused(authorization)
  if (url.includes('#')) throw badTarget()
  const { authority, path } = splitUrl(url.slice(schemeMatch[0].length))
  if (authority.includes('@')) throw new BadMessage('a user in the URL; send an Authorization header')
  const target = parseAuthority(authority, httpPort)
  if (target === null) throw badTarget()
  singleHeader(fields, 'host')
  const { close, keepAlive, upgrade: requestedUpgrade, passed } = connectionOf(fields, 'request')
  // HTTP/1.0 requests have neither upgrades nor expectations (RFC 9110 sections 7.8 and 10.1.1).
  const upgrade = version === 0 ? null : requestedUpgrade
  const isOmitted = (name: string): boolean => name === 'host' || (version === 0 && name === 'expect')
  const framing = requestFraming(fields, version) ?? { kind: 'none' }
  const requestTarget = path === '' ? (method === 'OPTIONS' ? '*' : '/') : path
  const host = target.port === httpPort ? hostText(target) : `${hostText(target)}:${target.port}`
  // `Host` is the host of the URL (RFC 9112 section 3.2.2). The version is the gateway's own (RFC 9112 section 2.3).
  let head = `${method} ${requestTarget} HTTP/1.1\r\nHost: ${host}\r\n`
  for (const { name, line } of passed) if (!isOmitted(name)) head += `${line}\r\n`
  if (upgrade !== null) head += `Connection: Upgrade\r\nUpgrade: ${upgrade}\r\n`
  head += '\r\n'
  return {
    kind: 'forward',
    method,
    target,
    authorization,
    version,
    head,
    length,
    framing,
    persistent: version === 1 ? !close : keepAlive && !close,
    upgrade,
    repeatable: framing.kind === 'none' && repeatableMethods.has(method) && upgrade === null,
  }
}

/** @throws BadMessage, SchemeRefused */
export const parseRequest = (head: Head): ConnectRequest | ForwardRequest => {
  const [method = '', url = '', major, minor] = splitRequestLine(head.startLine)
  if (major !== '1' || (minor !== '0' && minor !== '1'))
    throw new BadMessage('only HTTP/1.0 and HTTP/1.1 are spoken here', 505)
  const version = minor === '1' ? 1 : 0
  return method === 'CONNECT'
    ? parseConnect(url, head.fields, version)
    : parseForward(head, method, url, version)
}

const wholeNumber = /^\d{1,15}$/

/**
 * The framing of a request body. @returns null: the fields define no body
 * @throws BadMessage for ambiguous framing, which two parsers may read differently
 */
const requestFraming = (fields: readonly Field[], version: 0 | 1): Framing | null => {
  const length = singleHeader(fields, 'content-length')
  const codings = listOf(fields, 'transfer-encoding')
  const isEncoded = fields.some(({ name }) => name === 'transfer-encoding')
  if (isEncoded) {
    if (length !== null) throw new BadMessage('both Content-Length and Transfer-Encoding')
    if (version === 0) throw new BadMessage('Transfer-Encoding in HTTP/1.0')
    if (codings.length !== 1 || codings[0] !== 'chunked')
      throw new BadMessage('a Transfer-Encoding other than chunked')
    return { kind: 'chunked' }
  }
  if (length === null) return null
  if (!wholeNumber.test(length)) throw new BadMessage('a Content-Length that is not a number')
  return length === '0' ? { kind: 'none' } : { kind: 'length', length: Number(length) }
}

const basic = /^basic +([A-Za-z0-9+/=_-]+)$/i

/** Decodes `Proxy-Authorization: Basic …`; null if there is none or it is invalid. */
export const credentialsOf = (
  authorization: string | null,
): { readonly username: string; readonly password: string } | null => {
  const encoded = basic.exec(authorization ?? '')?.[1]
  if (encoded === undefined) return null
  const text = Buffer.from(encoded, 'base64').toString('utf8')
  const colon = text.indexOf(':')
  return colon === -1 ? null : { username: text.slice(0, colon), password: text.slice(colon + 1) }
}

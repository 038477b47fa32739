import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { gzipSync } from 'node:zlib'

/** The members of a list in a header, without what follows a semicolon. */
const members = (header: string | undefined): readonly (readonly [name: string, parameters: string])[] =>
  (header ?? '').split(',').map((member) => {
    const [name = '', ...parameters] = member.split(';')
    return [name.trim(), parameters.join(';').replaceAll(' ', '')]
  })

/** RFC 9110, 12.5.3: a weight of 0 means "not acceptable". */
const takesGzip = (header: string | string[] | undefined): boolean =>
  members(String(header ?? '')).some(
    ([name, parameters]) => name.toLowerCase() === 'gzip' && !/^q=0(\.0*)?$/i.test(parameters),
  )

/** Weak: it names the text in every encoding. */
export const etagOf = (text: string): string =>
  `W/"${createHash('sha256').update(text).digest('base64url').slice(0, 22)}"`

/** Whether the client says that it has what this names (RFC 9110, 13.1.2). */
export const isHeld = (headers: IncomingHttpHeaders, etag: string): boolean =>
  members(headers['if-none-match']).some(([name]) => {
    const tag = name.replace(/^(?!W\/)/, 'W/')
    return tag === etag || tag === 'W/*'
  })

/**
 * A text that is the same for everybody until the process ends. Caches must ask each time, and are answered 304 while they
 * have it (RFC 9110, 13.1.2). It is compressed once, for clients that take gzip.
 */
export const fixedText = (text: string) => {
  const etag = etagOf(text)
  const common = { etag, 'cache-control': 'no-cache', vary: 'accept-encoding' }
  let packed: Buffer | null = null

  return (headers: IncomingHttpHeaders) => {
    if (isHeld(headers, etag)) return { status: 304, headers: common } as const
    if (!takesGzip(headers['accept-encoding'])) return { status: 200, text, headers: common } as const
    packed ??= gzipSync(text, { level: 9 })
    return { status: 200, text: packed, headers: { ...common, 'content-encoding': 'gzip' } } as const
  }
}

import { readFile, stat } from 'node:fs/promises'
import type { Send } from '../../platform/outgoing/send.ts'
import type { Source } from './source.ts'

/** What tells a later look that nothing changed. */
export type Validators = { readonly etag: string | null; readonly lastModified: string | null }

export type Fetched =
  | { readonly kind: 'unchanged' }
  | { readonly kind: 'read'; readonly text: string; readonly validators: Validators }

/** A feed has no more than this, 16 MiB. */
export const mostFeedBytes = 16_777_216

/** The feed could not be read; the message says why and holds nothing that its server wrote. */
export class FeedFailed extends Error {
  override readonly name = 'FeedFailed'
}

const readFrom = async (path: string, known: Validators): Promise<Fetched> => {
  const { size, mtimeMs } = await stat(path)
  if (size > mostFeedBytes) throw new FeedFailed(`the file has more than ${mostFeedBytes} bytes`)
  const etag = `${size}-${mtimeMs}`
  if (known.etag === etag) return { kind: 'unchanged' }
  return { kind: 'read', text: await readFile(path, 'utf8'), validators: { etag, lastModified: null } }
}

const longestValidator = 400
const validator = (value: string | null): string | null =>
  value !== null && value.length <= longestValidator ? value : null

/**
 * Reads a feed, unless it is the same as before: a conditional GET over `send`, which keeps to public addresses, or the
 * size and time of a file.
 * @throws FeedFailed for an answer that is no feed, and what `send` and the file system throw
 */
export const fetchFeed = async ({ from }: Source, known: Validators, send: Send): Promise<Fetched> => {
  if ('file' in from) return readFrom(from.file, known)
  const { status, headers, text } = await send(from.url, {
    headers: {
      ...(known.etag !== null && { 'if-none-match': known.etag }),
      ...(known.lastModified !== null && { 'if-modified-since': known.lastModified }),
    },
  })
  if (status === 304) return { kind: 'unchanged' }
  if (status !== 200) throw new FeedFailed(`it answers with the status ${status}`)
  return {
    kind: 'read',
    text: await text(),
    validators: {
      etag: validator(headers.get('etag')),
      lastModified: validator(headers.get('last-modified')),
    },
  }
}

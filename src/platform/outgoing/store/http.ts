import { faultKind } from '../fault.ts'
import type { Outgoing } from '../send.ts'
import { TargetRefused } from '../target.ts'
import { type Store, StoreFailed } from './store.ts'

export type HttpStoreOptions = {
  readonly outgoing: Outgoing
  /** Where the file of a name lies. */
  readonly urlOf: (name: string) => string
  /** The headers of one request, its credentials among them; names in lower case. */
  readonly headersOf: (request: {
    readonly method: string
    readonly url: string
    readonly headers: Readonly<Record<string, string>>
    readonly body: string
  }) => Readonly<Record<string, string>>
}

type Answer = { readonly status: number; readonly text: string }

/** The code of an S3 error document: a word, and nothing else that the other side wrote. */
const codeIn = (text: string): string | null => /<Code>(\w{1,60})<\/Code>/.exec(text)?.[1] ?? null

/** A missing bucket is no missing file. */
const isAbsent = ({ status, text }: Answer): boolean =>
  (status === 404 || status === 410) && codeIn(text) !== 'NoSuchBucket'

const refused = ({ status, text }: Answer): StoreFailed => {
  const code = codeIn(text)
  return new StoreFailed(`it answered ${status}${code === null ? '' : ` (${code})`}`)
}

const unanswered = (error: unknown): StoreFailed => {
  const { cause } = error as { cause?: unknown }
  const refusal = [error, cause].find((each) => each instanceof TargetRefused)
  const why = refusal instanceof TargetRefused ? `not called: ${refusal.message}` : faultKind(error)
  return new StoreFailed(`it gave no answer (${why})`, { cause: error })
}

/**
 * Files behind an address: `PUT` with `If-None-Match: *` writes one that is not there yet, `GET` reads it. Where the
 * server does not know that header (501) it is asked first; where it ignores it, the same bytes are written again.
 */
export const httpStore = ({ outgoing, urlOf, headersOf }: HttpStoreOptions): Store => {
  const ask = async (
    method: 'GET' | 'PUT',
    name: string,
    headers: Readonly<Record<string, string>>,
    body = '',
  ): Promise<Answer> => {
    const url = urlOf(name)
    try {
      const { status, text } = await outgoing.send(url, {
        method,
        headers: headersOf({ method, url, headers, body }),
        ...(method === 'PUT' ? { body } : {}),
      })
      return { status, text: await text() }
    } catch (error) {
      throw unanswered(error)
    }
  }

  const get = async (name: string): Promise<string | null> => {
    const answer = await ask('GET', name, {})
    if (answer.status === 200) return answer.text
    if (isAbsent(answer)) return null
    throw refused(answer)
  }

  const write = (name: string, text: string, condition: Readonly<Record<string, string>>): Promise<Answer> =>
    ask('PUT', name, { ...condition, 'content-type': 'application/json' }, text)

  const held = async (name: string, text: string): Promise<'stored' | 'other' | null> => {
    const kept = await get(name)
    if (kept === null) return null
    return kept === text ? 'stored' : 'other'
  }

  return {
    async put(name, text) {
      let answer = await write(name, text, { 'if-none-match': '*' })
      if (answer.status === 412 || answer.status === 501) {
        const outcome = await held(name, text)
        if (outcome !== null) return outcome
        if (answer.status === 501) answer = await write(name, text, {})
      }
      if (![200, 201, 204].includes(answer.status)) throw refused(answer)
      return 'stored'
    },
    get,
    close: outgoing.close,
  }
}

import { AwsV4Signer } from 'aws4fetch'
import { isoTime } from '../../kernel/clock.ts'
import { sha256 } from '../../kernel/digest.ts'
import { type Store, StoreFailed, writeOnceStore } from './object-store.ts'
import type { Outgoing } from './send.ts'
import { faultKind, TargetRefused } from './target.ts'

export type HttpStoreOptions = {
  readonly outgoing: Outgoing
  /** The URL of a file. */
  readonly urlOf: (name: string) => string
  /** The headers of a request, including its credentials. Names in lower case. */
  readonly headersOf: (request: {
    readonly method: string
    readonly url: string
    readonly headers: Readonly<Record<string, string>>
    readonly body: string
  }) => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>
}

type Answer = { readonly status: number; readonly text: string }

/** The code of an S3 error document. No other text of the server is used. */
const codeIn = (text: string): string | null => /<Code>(\w{1,60})<\/Code>/.exec(text)?.[1] ?? null

/** A missing bucket is an error, not a missing file. */
const isAbsent = ({ status, text }: Answer): boolean =>
  (status === 404 || status === 410) && codeIn(text) !== 'NoSuchBucket'

const refused = ({ status, text }: Answer): StoreFailed => {
  const code = codeIn(text)
  return new StoreFailed(`it answered ${status}${code === null ? '' : ` (${code})`}`)
}

const unanswered = (error: unknown): StoreFailed => {
  const { cause } = error as { cause?: unknown }
  const refusal = [error, cause].find((each) => each instanceof TargetRefused)
  const reason = refusal instanceof TargetRefused ? `not called: ${refusal.message}` : faultKind(error)
  return new StoreFailed(`it gave no answer (${reason})`, { cause: error })
}

/**
 * Files at a URL: `PUT` with `If-None-Match: *` writes a file that does not exist yet, `GET` reads it. A server that
 * does not support that header (501) gets a plain `PUT`.
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
        headers: await headersOf({ method, url, headers, body }),
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

  return writeOnceStore({
    async create(name, text) {
      const answer = await write(name, text, { 'if-none-match': '*' })
      if (answer.status === 501) return false
      if (![200, 201, 204, 412].includes(answer.status)) throw refused(answer)
      return true
    },
    async replace(name, text) {
      const answer = await write(name, text, {})
      if (![200, 201, 204].includes(answer.status)) throw refused(answer)
    },
    get,
    close: outgoing.close,
  })
}

export type SigningKey = { readonly accessKey: string; readonly secretKey: string; readonly region: string }

export type Signable = {
  readonly method: string
  /** Without a query. */
  readonly url: string
  /** Sent and signed in addition to `host` and the headers of the signature. */
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/**
 * The headers of a request to S3 with AWS Signature Version 4: the given headers, and those of the signature. Valid for
 * 15 minutes around `nowMs`.
 */
export const signedHeaders = async (
  { accessKey, secretKey, region }: SigningKey,
  { method, url, headers, body = '' }: Signable,
  nowMs: number,
): Promise<Readonly<Record<string, string>>> => {
  const signer = new AwsV4Signer({
    method,
    url,
    headers: { ...headers, 'x-amz-content-sha256': sha256(body).toString('hex') },
    accessKeyId: accessKey,
    secretAccessKey: secretKey,
    region,
    service: 's3',
    datetime: isoTime(nowMs).replaceAll(/[-:]|\.\d{3}/g, ''),
    allHeaders: true,
  })
  return Object.fromEntries((await signer.sign()).headers)
}

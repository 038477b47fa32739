import { createHash, createHmac } from 'node:crypto'
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
  }) => Readonly<Record<string, string>>
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

export type SigningKey = {
  readonly accessKey: string
  readonly secretKey: string
  readonly region: string
  /** E.g. `s3`. */
  readonly service: string
}

export type Signable = {
  readonly method: string
  /** The path must be encoded already and have no query. */
  readonly url: string
  /** Sent and signed in addition to `host` and the headers of the signature. Names in lower case. */
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()

/**
 * The headers of a request to a service with AWS Signature Version 4: the given headers, and `authorization`,
 * `x-amz-date` and `x-amz-content-sha256`. Valid for 15 minutes around `nowMs`.
 */
export const signedHeaders = (
  key: SigningKey,
  { method, url, headers = {}, body = '' }: Signable,
  nowMs: number,
): Readonly<Record<string, string>> => {
  const { host, pathname } = new URL(url)
  const at = new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d{3}/g, '')
  const day = at.slice(0, 8)
  const content = sha256(body)
  const sentHeaders = { ...headers, 'x-amz-content-sha256': content, 'x-amz-date': at }
  const signed = Object.entries({ ...sentHeaders, host }).sort(([a], [b]) => (a < b ? -1 : 1))
  const names = signed.map(([name]) => name).join(';')
  const lines = signed.map(([name, value]) => `${name}:${value.trim()}\n`).join('')
  const canonical = `${method}\n${pathname}\n\n${lines}\n${names}\n${content}`
  const scope = `${day}/${key.region}/${key.service}/aws4_request`
  const toSign = `AWS4-HMAC-SHA256\n${at}\n${scope}\n${sha256(canonical)}`
  const derived = [day, key.region, key.service, 'aws4_request'].reduce<string | Buffer>(
    (secret, part) => hmac(secret, part),
    `AWS4${key.secretKey}`,
  )
  const signature = hmac(derived, toSign).toString('hex')
  return {
    ...sentHeaders,
    authorization: `AWS4-HMAC-SHA256 Credential=${key.accessKey}/${scope},SignedHeaders=${names},Signature=${signature}`,
  }
}

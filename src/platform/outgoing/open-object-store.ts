import { open, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { AwsV4Signer } from 'aws4fetch'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { sha256 } from '../../kernel/digest.ts'
import { trimEnd } from '../../kernel/formats.ts'
import { FileExists, writeFileAtomically } from './file-sink.ts'
import { maxFileBytes, type Store, StoreFailed, type StoreLocation, writeOnceStore } from './object-store.ts'
import type { Outgoing, SendLimits } from './send.ts'
import { faultKind, TargetRefused } from './target.ts'

/** Credentials and permissions for stores. */
export type StoreAccess = {
  /** The bearer token for an HTTP address; null: no token is sent. */
  readonly token: string | null
  /** For buckets; null: not set. */
  readonly s3: {
    /** Null: the endpoint of AWS for the region. */
    readonly endpoint: string | null
    readonly region: string
    readonly accessKey: string
    readonly secretKey: string
  } | null
  /** Whether stores in private networks and over plain http are also allowed. */
  readonly allowPrivate: boolean
}

/** A location, and the access to it and to similar ones. */
export type StoreSettings = {
  /** Null: not set. */
  readonly location: StoreLocation | null
  readonly access: StoreAccess
}

const limits: SendLimits = { connectMs: 5_000, requestMs: 15_000, responseBytes: maxFileBytes }

/** @throws Error if it is a bucket and no access to buckets is set */
export const openStore = async (
  storeLocation: StoreLocation,
  access: StoreAccess,
  clock: Clock,
): Promise<Store> => {
  const outgoingTo = async (url: string): Promise<Outgoing> => {
    const { originOutgoing, publicOutgoing } = await import('./send.ts') // loading undici takes longer than most commands
    return access.allowPrivate ? originOutgoing(url, { limits }) : publicOutgoing({ limits })
  }
  switch (storeLocation.kind) {
    case 'folder':
      return folderStore(storeLocation.path)
    case 'http': {
      const { token } = access
      const credentials = token === null ? {} : { authorization: `Bearer ${token}` }
      return httpStore({
        outgoing: await outgoingTo(storeLocation.url),
        urlOf: (name) => `${storeLocation.url}${name}`,
        headersOf: ({ headers }) => ({ ...headers, ...credentials }),
      })
    }
    case 's3': {
      const { s3 } = access
      if (s3 === null) throw new Error('a bucket needs an access key and a secret key')
      const endpoint = trimEnd(s3.endpoint ?? `https://s3.${s3.region}.amazonaws.com`, '/')
      return httpStore({
        outgoing: await outgoingTo(endpoint),
        urlOf: (name) => `${endpoint}/${storeLocation.bucket}/${storeLocation.prefix}${name}`,
        headersOf: (request) => signedHeaders(s3, request, clock()),
      })
    }
    default:
      return storeLocation satisfies never
  }
}

const codeOf = (error: unknown): string => {
  const { code, cause } = error as { code?: string; cause?: { code?: string } }
  return code ?? cause?.code ?? 'fault'
}

/** All users may read the files. */
const mode = 0o644

/** An existing folder, local or mounted. */
const folderStore = (path: string): Store => {
  const failed = (problem: string, error: unknown): StoreFailed =>
    new StoreFailed(`the folder ${path} ${problem} (${codeOf(error)})`, { cause: error })

  const assertThere = async (): Promise<void> => {
    const found = await stat(path).catch((error) => {
      throw failed('cannot be found', error)
    })
    if (!found.isDirectory()) throw new StoreFailed(`${path} is no folder`)
  }

  const read = async (name: string): Promise<string | null> => {
    await assertThere()
    try {
      const file = await open(join(path, name), 'r')
      try {
        const { size } = await file.stat()
        if (size > maxFileBytes)
          throw new StoreFailed(`${join(path, name)} holds more than ${maxFileBytes} bytes`)
        return await file.readFile('utf8')
      } finally {
        await file.close()
      }
    } catch (error) {
      if (error instanceof StoreFailed) throw error
      if (codeOf(error) === 'ENOENT') return null
      throw failed('cannot be read', error)
    }
  }

  const write = async (name: string, text: string, replace: boolean): Promise<void> => {
    try {
      await writeFileAtomically(join(path, name), text, { mode, replace })
    } catch (error) {
      if (!(error instanceof FileExists)) throw failed('cannot be written to', error)
    }
  }

  return writeOnceStore({
    async create(name, text) {
      await write(name, text, false)
      return true
    },
    replace: (name, text) => write(name, text, true),
    get: read,
    close: async () => undefined,
  })
}

type HttpStoreOptions = {
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
const httpStore = ({ outgoing, urlOf, headersOf }: HttpStoreOptions): Store => {
  const request = async (
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
    const answer = await request('GET', name, {})
    if (answer.status === 200) return answer.text
    if (isAbsent(answer)) return null
    throw refused(answer)
  }

  const write = (name: string, text: string, condition: Readonly<Record<string, string>>): Promise<Answer> =>
    request('PUT', name, { ...condition, 'content-type': 'application/json' }, text)

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

type SigningKey = { readonly accessKey: string; readonly secretKey: string; readonly region: string }

type Signable = {
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

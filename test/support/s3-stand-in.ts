import { createHash, createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'

/**
 * The server's fault instead of its work: an answer with that status, or a cut connection, before or after
 * the work.
 */
export type Fault =
  | { readonly status: number }
  | { readonly cut: 'before' | 'after' }
  | { readonly hang: true }

export type KeeperServer = {
  readonly url: string
  /** Its objects, by path. */
  readonly files: Map<string, string>
  /** Method and path of every request, in order. */
  readonly requests: string[]
  /** One for each of the next requests. */
  readonly faults: (Fault | null)[]
}

const sha256 = (data: string | Buffer): string => createHash('sha256').update(data).digest('hex')
const hmac = (key: string | Buffer, data: string): Buffer => createHmac('sha256', key).update(data).digest()

const bodyOf = async (request: IncomingMessage): Promise<Buffer> => {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** Null when the request is signed as the server's owner would, else the code of S3's error. */
const signatureProblem = (
  request: IncomingMessage,
  body: Buffer,
  { accessKey, secretKey, region }: { accessKey: string; secretKey: string; region: string },
): string | null => {
  const { authorization = '' } = request.headers
  const parsed =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
      authorization,
    )
  if (parsed === null) return 'AccessDenied'
  const [, id, day = '', scopeRegion, names = '', signature] = parsed
  if (id !== accessKey) return 'InvalidAccessKeyId'
  if (scopeRegion !== region) return 'AuthorizationHeaderMalformed'
  const header = (name: string): string => String(request.headers[name] ?? '')
  if (header('x-amz-content-sha256') !== sha256(body)) return 'XAmzContentSHA256Mismatch'
  const at = header('x-amz-date')
  const [, y, mo, d, h, mi, s] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(at) ?? []
  if (Math.abs(Date.parse(`${y}-${mo}-${d}T${h}:${mi}:${s}Z`) - Date.now()) > 900_000)
    return 'RequestTimeTooSkewed'
  if (!names.split(';').includes('host')) return 'SignatureDoesNotMatch'
  const headers = names.split(';').map((name) => `${name}:${header(name).trim()}`)
  const canonical = [
    request.method,
    (request.url ?? '').split('?')[0],
    (request.url ?? '').split('?')[1] ?? '',
    ...headers,
    '',
    names,
    sha256(body),
  ].join('\n')
  const scope = `${day}/${region}/s3/aws4_request`
  let key: Buffer = hmac(`AWS4${secretKey}`, day)
  for (const part of [region, 's3', 'aws4_request']) key = hmac(key, part)
  const expected = hmac(key, `AWS4-HMAC-SHA256\n${at}\n${scope}\n${sha256(canonical)}`).toString('hex')
  return expected === signature ? null : 'SignatureDoesNotMatch'
}

type Behaviour = {
  /** The refusal of a caller: a status and a body. */
  readonly refuse: (request: IncomingMessage, body: Buffer) => { status: number; body: string } | null
  readonly absent: string
  /** Whether `If-None-Match: *` is understood (`no`: 501, `ignored`: it overwrites). */
  readonly conditions: 'yes' | 'no' | 'ignored'
}

const keeper = async (t: TestContext, behaviour: Behaviour): Promise<KeeperServer> => {
  const files = new Map<string, string>()
  const requests: string[] = []
  const faults: (Fault | null)[] = []
  const work = (request: IncomingMessage, body: Buffer): { status: number; body: string } => {
    const path = request.url ?? ''
    const refusal = behaviour.refuse(request, body)
    if (refusal !== null) return refusal
    if (request.method === 'GET') {
      const found = files.get(path)
      return found === undefined ? { status: 404, body: behaviour.absent } : { status: 200, body: found }
    }
    if (request.method !== 'PUT') return { status: 405, body: '' }
    const conditional = request.headers['if-none-match'] === '*'
    if (conditional && behaviour.conditions === 'no')
      return { status: 501, body: '<Error><Code>NotImplemented</Code></Error>' }
    if (conditional && behaviour.conditions === 'yes' && files.has(path))
      return { status: 412, body: '<Error><Code>PreconditionFailed</Code></Error>' }
    files.set(path, body.toString('utf8'))
    return { status: 200, body: '' }
  }
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await bodyOf(request)
    requests.push(`${request.method} ${request.url}`)
    const fault = faults.shift() ?? null
    if (fault !== null && 'hang' in fault) return
    if (fault !== null && 'status' in fault) {
      response.writeHead(fault.status).end('<Error><Code>SlowDown</Code></Error>')
      return
    }
    if (fault !== null && fault.cut === 'before') {
      request.socket.destroy()
      return
    }
    const answer = work(request, body)
    if (fault !== null) request.socket.destroy()
    else response.writeHead(answer.status).end(answer.body)
  }
  const server = createServer((request, response) => void serve(request, response)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, files, requests, faults }
}

/** An S3-compatible store over its real protocol: it recomputes every signature from the received bytes. */
export const startS3 = (
  t: TestContext,
  owner: {
    readonly accessKey: string
    readonly secretKey: string
    readonly region: string
    readonly bucket: string
  },
  conditions: Behaviour['conditions'] = 'yes',
): Promise<KeeperServer> =>
  keeper(t, {
    conditions,
    absent: '<Error><Code>NoSuchKey</Code></Error>',
    refuse: (request, body) => {
      const code = signatureProblem(request, body, owner)
      if (code !== null) return { status: 403, body: `<Error><Code>${code}</Code></Error>` }
      return request.url?.startsWith(`/${owner.bucket}/`)
        ? null
        : { status: 404, body: '<Error><Code>NoSuchBucket</Code></Error>' }
    },
  })

/** A server that stores what is put, behind a bearer token. */
export const startKeeper = (
  t: TestContext,
  token: string,
  conditions: Behaviour['conditions'] = 'yes',
): Promise<KeeperServer> =>
  keeper(t, {
    conditions,
    absent: '',
    refuse: ({ headers }) =>
      headers.authorization === `Bearer ${token}` ? null : { status: 401, body: 'who are you?' },
  })

import { createHash, createHmac } from 'node:crypto'

export type SigningKey = {
  readonly accessKey: string
  readonly secretKey: string
  readonly region: string
  /** E.g. `s3`. */
  readonly service: string
}

export type Signable = {
  readonly method: string
  /** Its path as it is sent: already encoded, and without a query. */
  readonly url: string
  /** Sent and signed beside `host` and those that signing adds; names in lower case. */
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()

/**
 * The headers of one request to a service that speaks AWS Signature Version 4: those given, and `authorization`,
 * `x-amz-date` and `x-amz-content-sha256`. Good for 15 minutes around `nowMs`.
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
  const sent = { ...headers, 'x-amz-content-sha256': content, 'x-amz-date': at }
  const signed = Object.entries({ ...sent, host }).sort(([a], [b]) => (a < b ? -1 : 1))
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
    ...sent,
    authorization: `AWS4-HMAC-SHA256 Credential=${key.accessKey}/${scope},SignedHeaders=${names},Signature=${signature}`,
  }
}

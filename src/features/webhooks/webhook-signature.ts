import { createHmac, createSecretKey, randomBytes } from 'node:crypto'

const prefix = 'whsec_'

/** `whsec_` and the base64 of 32 random bytes. */
export const newSecret = (): string => `${prefix}${randomBytes(32).toString('base64')}`

/**
 * Hex HMAC-SHA256 of the exact body, keyed with the whole secret as UTF-8 (docs/http-api.md, "Webhooks and notices").
 */
const serviceSignature = (secret: string, body: Buffer): string =>
  createHmac('sha256', secret).update(body).digest('hex')

/** Standard Webhooks 1.0: base64 HMAC-SHA256 of `id.timestamp.body`, keyed with the decoded bytes. */
const standardSignature = (secret: string, id: string, timestampS: number, body: Buffer): string =>
  `v1,${createHmac('sha256', createSecretKey(secret.slice(prefix.length), 'base64'))
    .update(`${id}.${timestampS}.`)
    .update(body)
    .digest('base64')}`

export type Message = {
  /** The same for every attempt and redelivery. */
  readonly deliveryId: string
  readonly event: string
  readonly resource: string
  /** The JSON text of `data`. */
  readonly data: string
}

/**
 * The exact bytes of one attempt, with the headers of both signature schemes. The time of the attempt is inside the
 * signed body, so that a receiver's replay window works for retries too.
 */
export const signedRequest = (
  { deliveryId, event, resource, data }: Message,
  secrets: { readonly current: string; readonly previous: string | null },
  createdMs: number,
): { readonly body: Buffer; readonly headers: Readonly<Record<string, string>> } => {
  const created = new Date(createdMs).toISOString()
  const body = Buffer.from(
    `{"event":${JSON.stringify(event)},"created":"${created}","resource":${JSON.stringify(resource)},"data":${data}}`,
  )
  const timestampS = Math.floor(createdMs / 1000)
  const standard = [secrets.current, secrets.previous]
    .filter((secret) => secret !== null)
    .map((secret) => standardSignature(secret, deliveryId, timestampS, body))
  return {
    body,
    headers: {
      'Content-Type': 'application/json',
      'User-Agent': 'Farebox-Webhooks/1',
      'X-Service-Event': event,
      'X-Service-Signature': serviceSignature(secrets.current, body),
      ...(secrets.previous !== null && {
        'X-Service-Signature-Previous': serviceSignature(secrets.previous, body),
      }),
      'X-Service-Timestamp': created,
      'webhook-id': deliveryId,
      'webhook-timestamp': String(timestampS),
      'webhook-signature': standard.join(' '),
    },
  }
}

import type { IncomingMessage } from 'node:http'
import { newId } from '../../kernel/ids.ts'
import { refuse } from './errors.ts'
import type { Checked } from './request-shape.ts'

/** A new request id, e.g. `req_0199…`. */
export const newRequestId = (): string => newId('req')

/** The client's `X-Request-Id` if it has the safe form, else a new one (docs/reference/api.md, "Requests"). */
export const requestIdFrom = (header: string | undefined): string =>
  header !== undefined && accepted.test(header) && !keyLike.test(header) ? header : newRequestId()

const callIdHeaders = ['X-Request-Id', 'Idempotency-Key'] as const

/**
 * The idempotency key of a scraper call, which is also its request id. The client sends it as `X-Request-Id`, as
 * `Idempotency-Key`, or as both. It is used unchanged or refused, never silently replaced. Null: none was sent.
 * Refused as `bad_input` if it is not 1 to 128 printable ASCII characters, if it looks like an API key, or if two
 * different values were sent.
 */
export const sentCallId = ({
  headersDistinct,
}: Pick<IncomingMessage, 'headersDistinct'>): Checked<string | null> => {
  const refused = (message: string, details: string) =>
    ({ ok: false, refusal: refuse('bad_input', message, { details }) }) as const
  const sent = callIdHeaders.flatMap((name) =>
    (headersDistinct[name.toLowerCase()] ?? []).map((value) => ({ name, value })),
  )
  const bad = sent.find(({ value }) => !printable.test(value) || keyLike.test(value))
  if (bad !== undefined) return refused(`${bad.name} must be 1 to 128 printable ASCII characters`, bad.name)
  if (new Set(sent.map(({ value }) => value)).size > 1)
    return refused(
      'X-Request-Id and Idempotency-Key have different values; send one of them',
      callIdHeaders.join(', '),
    )
  return { ok: true, value: sent[0]?.value ?? null }
}

const accepted = /^[A-Za-z0-9._:-]{1,128}$/

/**
 * Request ids are logged and stored in events. A value that looks like an API key was sent by mistake and must not be
 * used.
 */
const keyLike = /fbx_/i
const printable = /^[\x20-\x7e]{1,128}$/

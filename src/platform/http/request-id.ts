import { newId } from '../../kernel/ids.ts'

const accepted = /^[A-Za-z0-9._:-]{1,128}$/
/** Request ids are logged and stand in events: one that looks like an API key, sent there by mistake, must not. */
const keyLike = /fbx_/i
const printable = /^[\x20-\x7e]{1,128}$/

/** A fresh request id, e.g. `req_0199…`. */
export const newRequestId = (): string => newId('req')

/** The client's `X-Request-Id` when it has the safe form, else a fresh one (docs/http-api.md, "Requests"). */
export const requestIdFrom = (header: string | undefined): string =>
  header !== undefined && accepted.test(header) && !keyLike.test(header) ? header : newRequestId()

/**
 * The request id of a scraper call, where it is the idempotency key: taken as it is or refused, never replaced in
 * silence. Null when it has another form than 1 to 128 printable ASCII characters.
 */
export const requestIdAsKey = (header: string | undefined): string | null => {
  if (header === undefined) return newRequestId()
  return printable.test(header) && !keyLike.test(header) ? header : null
}

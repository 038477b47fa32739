import type { AccountId } from '../../kernel/ids.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { RecordedEvent } from '../../platform/eventstore/event.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import type { OrderDetails } from '../../terms/order-details.ts'
import type { StreamName } from '../../terms/streams.ts'
import { accountStream, catalogStream, termsStream } from '../../terms/streams.ts'

/** Something that was in force when an order was decided, and the event that put it in force. */
export type Term = { readonly what: string; readonly event: RecordedEvent }

/** The order that an event carries, or null. */
export const orderIn = (event: RecordedEvent): OrderDetails | null =>
  (event.data as { readonly order?: OrderDetails }).order ?? null

/** The last event of a stream, up to a position, that `fits`. */
const lastOf = async (
  log: Pick<EventLog, 'readStream'>,
  stream: StreamName,
  position: number,
  fits: (event: RecordedEvent) => boolean,
): Promise<RecordedEvent | null> => {
  let found: RecordedEvent | null = null
  for await (const stored of log.readStream(stream)) {
    if (stored.position > position) break
    const event = decode(stored)
    if (fits(event)) found = event
  }
  return found
}

/**
 * On which terms an order was decided: the catalogue that priced it, the reseller's terms, the key with its cap. Each
 * is told by the event that set it, so that it is seen who did.
 */
export const termsOf = async (
  log: Pick<EventLog, 'readStream'>,
  order: OrderDetails,
  position: number,
): Promise<readonly Term[]> => {
  const accountId = order.accountId as AccountId
  const { catalogDigest, keyId, termsRevision } = order
  const ofKey = (event: RecordedEvent) => (event.data as { readonly keyId?: string }).keyId === keyId
  const found: readonly (readonly [what: string, event: RecordedEvent | null])[] = [
    [
      `catalogue ${catalogDigest.slice(0, 12)}`,
      await lastOf(
        log,
        catalogStream,
        position,
        ({ type, data }) =>
          type === 'CatalogImported' && (data as { digest: string }).digest === catalogDigest,
      ),
    ],
    [
      `terms of the reseller, revision ${termsRevision}`,
      termsRevision === undefined
        ? null
        : await lastOf(log, termsStream(accountId), position, ({ revision }) => revision === termsRevision),
    ],
    [`key ${keyId}`, keyId === null ? null : await lastOf(log, accountStream(accountId), position, ofKey)],
  ]
  return found.flatMap(([what, event]) => (event ? [{ what, event }] : []))
}

import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import type { RecordedEvent } from '../../kernel/event.ts'
import { growingCacheOptions } from '../../kernel/formats.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { StreamName } from '../../kernel/streams.ts'
import { decode } from '../eventstore/codec.ts'
import type { EventLog } from '../eventstore/port.ts'

/** Returns the rows whose owner the log confirms, in the same order. Other rows are dropped and logged as errors. */
export type GenuineRows<Row> = <Given extends Row>(
  accountId: AccountId,
  rows: readonly Given[],
) => Promise<readonly Given[]>

const maxCached = 100_000

/**
 * Compares rows of a read table with the log before secrets of their owner are derived from them, because SQL can
 * change the owner of a row. Confirmed rows are cached, because owners never change.
 * @param of `keyOf` contains all fields of the row that `isGenuine` compares; `limitEach` is the number of events of a
 *   stream that `isGenuine` needs
 * @throws the error of the log, if a row is not confirmed yet
 */
export const createGenuineRows = <Row>(
  { log, logger }: { readonly log: Pick<EventLog, 'readStreams'>; readonly logger: Pick<Logger, 'error'> },
  of: {
    readonly keyOf: (row: Row) => string
    readonly streamOf: (row: Row) => StreamName
    readonly isGenuine: (accountId: AccountId, row: Row, events: readonly RecordedEvent[]) => boolean
    readonly limitEach?: number
  },
): GenuineRows<Row> => {
  const confirmed = new LRUCache<string, true>(growingCacheOptions(maxCached))
  return async (accountId, rows) => {
    const keyOf = (row: Row): string => `${accountId} ${of.keyOf(row)}`
    const unconfirmed = rows.filter((row) => !confirmed.has(keyOf(row)))
    if (unconfirmed.length === 0) return rows
    const streams = [...new Set(unconfirmed.map(of.streamOf))]
    const stored = await log.readStreams(
      streams.map((stream) => ({ stream, from: 0 })),
      of.limitEach,
    )
    const rejectedRows = new Set<Row>()
    for (const row of unconfirmed) {
      const events = (stored.get(of.streamOf(row)) ?? []).map((event) => decode(event))
      if (of.isGenuine(accountId, row, events)) confirmed.set(keyOf(row), true)
      else {
        rejectedRows.add(row)
        logger.error(
          { accountId, row: of.keyOf(row) },
          'a row names another owner than the log: it is left out',
        )
      }
    }
    return rejectedRows.size === 0 ? rows : rows.filter((row) => !rejectedRows.has(row))
  }
}

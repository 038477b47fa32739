import type { SealEvent } from '../../domain/seals/events.ts'
import { sealStream } from '../../kernel/streams.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { SealsFileRefused, sealEventForm } from '../seals/seals-file.ts'

/** The external form of an event of the `seal` stream (docs/finance/seals.md). */
export type SealRecord = {
  /** The id of the log's first event. It identifies the history, wherever that is stored. */
  readonly firstEventId: string
  /** The revision in the stream, from 0, without gaps. */
  readonly revision: number
  readonly event: SealEvent
}

/** The file name of a record in every store. Names sort in the order of the stream. */
export const recordName = (revision: number): string => `${String(revision).padStart(12, '0')}.json`

/** The canonical text of a record: the same seal always gives the same bytes. */
export const recordText = ({ firstEventId, revision, event }: SealRecord): string => {
  const { type, data } = event
  const fields =
    type === 'LogSealed'
      ? {
          throughOrdinal: data.throughOrdinal,
          throughEventId: data.throughEventId,
          digest: data.digest,
          sealedAt: data.sealedAt,
          publicKey: data.publicKey,
          ...(data.checkedEvents !== undefined && { checkedEvents: data.checkedEvents }),
          signature: data.signature,
        }
      : {
          sealedOrdinal: data.sealedOrdinal,
          sealedDigest: data.sealedDigest,
          previousPublicKey: data.previousPublicKey,
          publicKey: data.publicKey,
          rotatedAt: data.rotatedAt,
          signature: data.signature,
        }
  const header = { format: 'farebox-seal', version: 1, firstEventId, revision }
  return `${JSON.stringify({ ...header, type, data: fields })}\n`
}

/** @throws SealsFileRefused when the text is not byte for byte the result of `recordText` */
export const parseRecord = (text: string): SealRecord => {
  let json: Record<string, unknown>
  try {
    json = JSON.parse(text)
  } catch {
    throw new SealsFileRefused('it is no JSON')
  }
  const { format, version, firstEventId, revision, type, data } = json ?? {}
  if (format !== 'farebox-seal' || version !== 1)
    throw new SealsFileRefused('it is no seal of version 1 ("format":"farebox-seal")')
  const event = sealEventForm.safeParse({ type, data })
  if (!event.success || typeof firstEventId !== 'string' || !/^[0-9a-f-]{36}$/.test(firstEventId))
    throw new SealsFileRefused('its fields are not those of a seal')
  if (!Number.isSafeInteger(revision) || (revision as number) < 0)
    throw new SealsFileRefused('its revision is no whole number from 0 on')
  const record = { firstEventId, revision: revision as number, event: event.data }
  if (recordText(record) !== text)
    throw new SealsFileRefused('it says what a seal says, but not in the bytes that one is written in')
  return record
}

/** A record with the id of its event. */
type LoggedRecord = { readonly record: SealRecord; readonly eventId: string }

/** The records of a log from a revision on, in order; none before the first seal. */
export async function* recordsOf(log: EventLog, from = 0): AsyncIterable<LoggedRecord> {
  const [first] = await log.readAll(0, 1)
  if (first === undefined) return
  for await (const { id, revision, type, data } of log.readStream(sealStream, from)) {
    const event = { type, data: JSON.parse(data) } as SealEvent
    yield { record: { firstEventId: first.id, revision, event }, eventId: id }
  }
}

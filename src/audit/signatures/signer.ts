import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type pg from 'pg'
import type { BatchSigningStopped, ProcessKeyIntroduced } from '../../domain/seals/events.ts'
import { type Clock, hasElapsed, isoTime } from '../../kernel/clock.ts'
import type { DomainEvent } from '../../kernel/event.ts'
import { newEventId, newId } from '../../kernel/ids.ts'
import { processKeyStream, type StreamName, signingStream } from '../../kernel/streams.ts'
import { encode } from '../../platform/eventstore/codec.ts'
import type { AppendItem, Expected } from '../../platform/eventstore/port.ts'
import type { BatchSigner, EventRow } from '../../platform/eventstore/postgres/append-batch.ts'
import { createBatchStatement, type DigestedEvent } from '../seals/digests.ts'
import { type SealKey, sealKeyOf } from '../seals/seals-file.ts'
import { introductionStatement, stopStatement } from './signing-keys.ts'

export type SignerOptions = {
  readonly pool: pg.Pool
  /** The key that introduces the keys of this process. */
  readonly sealKey: SealKey
  /** The service's clock. */
  readonly clock: Clock
  /** E.g. `server` or `command`. */
  readonly role: string
}

const hourMs = 3_600_000
/** How long a key may sign, and when the process replaces it. */
const lifeMs = 24 * hourMs
const renewMs = 23 * hourMs

const eventsOf = function* (rows: readonly EventRow[]): Generator<DigestedEvent> {
  for (const { stream, revision, event } of rows) yield { ...event, stream, revision }
}

/** An event of the signer, as an item of a batch. */
const itemOf = (
  stream: StreamName,
  expected: Expected,
  event: DomainEvent,
  recordedAt: string,
): AppendItem => ({
  appends: [
    {
      stream,
      expected,
      events: [
        encode(
          event,
          {
            correlationId: newId('run'),
            causationId: null,
            actor: { kind: 'system', name: 'signer' },
            recordedAt,
          },
          newEventId(),
        ),
      ],
    },
  ],
})

const readLogId = async (pool: pg.Pool): Promise<string> => {
  const { rows } = await pool.query<{ log_id: string }>('select log_id from log.head')
  return rows[0]!.log_id
}

const processName = (role: string): string => `${role} ${process.pid} on ${hostname()}`

/** A key of this process that may not be in the log yet. */
type OwnKey = {
  readonly key: SealKey
  readonly publicKey: Buffer
  readonly introduction: AppendItem
  readonly sinceMs: number
  /** The number of appended batches. */
  batches: number
  /** The first position of the last batch. */
  lastPosition: number
}

/**
 * Signs each batch with a key that only this process has. The sealing key introduces it in the first batch that it
 * signs. The key is replaced after 23 hours, and when the answer to a batch was lost: it is then unknown whether the
 * old key signed one more batch.
 */
export const createBatchSigner = ({ pool, sealKey, clock, role }: SignerOptions): BatchSigner => {
  let ownKey: OwnKey | null = null
  let statementOf: ReturnType<typeof createBatchStatement> | null = null
  let logId: string | null = null

  const createKey = (logId: string, previous: OwnKey | null): OwnKey => {
    const key = sealKeyOf(randomBytes(32))
    const nowMs = clock()
    const introducedAt = isoTime(nowMs)
    const unsigned: Omit<ProcessKeyIntroduced['data'], 'signature'> = {
      publicKey: key.publicKey,
      logId,
      process: processName(role),
      introducedAt,
      endsAt: isoTime(nowMs + lifeMs),
      previousPublicKey: previous?.key.publicKey ?? null,
      previousBatches: previous?.batches ?? 0,
      sealPublicKey: sealKey.publicKey,
    }
    const data = { ...unsigned, signature: sealKey.sign(introductionStatement(unsigned)) }
    return {
      key,
      publicKey: Buffer.from(key.publicKey, 'hex'),
      introduction: itemOf(
        processKeyStream(key.publicKey),
        'noStream',
        { type: 'ProcessKeyIntroduced', data },
        introducedAt,
      ),
      sinceMs: nowMs,
      batches: 0,
      lastPosition: 0,
    }
  }

  return {
    async preamble() {
      logId ??= await readLogId(pool)
      statementOf ??= createBatchStatement(logId)
      // Also when the clock was ahead when the key was created: its introduction would be in the future.
      if (ownKey === null || hasElapsed(ownKey.sinceMs, clock(), renewMs))
        ownKey = createKey(logId, ownKey?.batches === 0 ? null : ownKey)
      return ownKey.batches === 0 ? ownKey.introduction : null
    },
    sign(rows) {
      if (ownKey === null || statementOf === null)
        throw new Error('a batch is signed before its preamble was requested')
      const batchPlace = {
        number: ownKey.batches + 1,
        previousPosition: ownKey.lastPosition,
        count: rows.length,
      }
      const signature = ownKey.key.signBytes(statementOf(ownKey.publicKey, batchPlace, eventsOf(rows)))
      return { publicKey: ownKey.publicKey, ...batchPlace, signature }
    },
    onCommitted(firstPosition) {
      if (ownKey === null) return
      ownKey.batches += 1
      ownKey.lastPosition = firstPosition
    },
    onOutcomeUnknown() {
      ownKey = null
    },
  }
}

/**
 * The signer of a process with signing turned off. When other processes have signed, its first batch contains an event,
 * signed by the sealing key, that stops signing.
 */
export const createSigningStop = ({ pool, sealKey, clock, role }: SignerOptions): BatchSigner => {
  /** Undefined: not read yet. */
  let stopItem: AppendItem | null | undefined
  let readAtMs = 0

  const readStop = async (): Promise<AppendItem | null> => {
    const { rows } = await pool.query<{ log_id: string; stops: number; signed: boolean }>(
      `select h.log_id, coalesce(s.revision + 1, 0)::int as stops,
              coalesce((select max(first_position) from log.signatures) > coalesce(s.position, 0), false) as signed
         from log.head h left join lateral (
           select revision, position from log.events where stream = $1::text order by revision desc limit 1) s on true`,
      [signingStream],
    )
    const { log_id: logId, stops, signed } = rows[0]!
    if (!signed) return null
    const stoppedAt = isoTime(clock())
    const unsigned: Omit<BatchSigningStopped['data'], 'signature'> = {
      number: stops + 1,
      process: processName(role),
      stoppedAt,
      sealPublicKey: sealKey.publicKey,
    }
    const data = { ...unsigned, signature: sealKey.sign(stopStatement(logId, unsigned)) }
    const expected = stops === 0 ? 'noStream' : stops - 1
    return itemOf(signingStream, expected, { type: 'BatchSigningStopped', data }, stoppedAt)
  }

  return {
    async preamble() {
      if (stopItem === undefined || (stopItem !== null && hasElapsed(readAtMs, clock(), hourMs))) {
        readAtMs = clock()
        stopItem = await readStop()
      }
      return stopItem
    },
    sign: () => null,
    onCommitted() {
      stopItem = null
    },
    onOutcomeUnknown() {
      stopItem = undefined
    },
  }
}

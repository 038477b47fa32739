import type pg from 'pg'
import { processKeyStream, sealStream, signingStream } from '../../kernel/streams.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'
import { isAcknowledged, signatureRule, type Violation, violationText } from '../violations.ts'
import { createSignatureCheck, type SignatureCheck, type VerifySignature } from './check-signatures.ts'
import { followSealingKey, type IntroducedKey, keyAfter, readIntroduction } from './signing-keys.ts'

/** A position in a log, and whether events must be signed there. */
export type SignaturePlace = { readonly position: number; readonly signing: boolean }

/** The sealing key after the last event of the `seal` stream up to a position; null without such an event. */
const sealingKeyAt = async (pool: Pick<pg.Pool, 'query'>, position: number): Promise<string | null> => {
  const { rows } = await pool.query<{ data: string }>(
    `select data from log.events where stream = $1::text and position <= $2::bigint order by revision desc limit 1`,
    [sealStream, position],
  )
  return rows[0] === undefined ? null : keyAfter(rows[0])
}

/**
 * The last end of a batch at or before a position, and whether events must be signed there. The introductions of
 * process keys decide that: they are sealed, so deleting signatures does not turn signing off.
 */
export const readSignaturesBefore = async (
  pool: Pick<pg.Pool, 'query'>,
  logId: string,
  position: number,
): Promise<SignaturePlace> => {
  const { rows } = await pool.query<SignaturePlace>(
    `with at as (
       select coalesce((select s.first_position - 1 from (
           select first_position, events from log.signatures where first_position <= $1::bigint
            order by first_position desc limit 1) s
           where s.first_position + s.events > $1::bigint + 1), $1::bigint) as position)
     select at.position,
            coalesce((select max(e.position) from log.events e
                where e.stream between $3::text and $3::text || 'g' and e.position <= at.position
                  and e.type = 'ProcessKeyIntroduced'
                  and strpos(e.data, '"logId":"' || $4::text || '"') > 0), 0) >
            coalesce((select max(e.position) from log.events e
                where e.stream = $2::text and e.position <= at.position), 0) as signing
       from at`,
    [position, signingStream, processKeyStream(''), logId],
  )
  return rows[0]!
}

export type CheckedLog = {
  readonly pool: pg.Pool
  readonly log: Pick<EventLog, 'logId' | 'readStream'>
  /** The public key of the sealing key from the settings. It is used for a log without seals. */
  readonly publicKey: string
  readonly verifySignature?: VerifySignature
}

/** Starts the check of the events after a position. */
export const startCheck = async (
  { pool, log, publicKey, verifySignature }: CheckedLog,
  { position, signing }: SignaturePlace,
  onUnsigned: (event: StoredEvent, problem: string) => void,
): Promise<SignatureCheck> => {
  const logId = await log.logId()
  const findKey = async (processKey: string): Promise<IntroducedKey | null> => {
    for await (const event of log.readStream(processKeyStream(processKey))) {
      const key = readIntroduction(event, (await sealingKeyAt(pool, event.position)) ?? publicKey)
      return typeof key === 'string' || key.logId !== logId ? null : key
    }
    return null
  }
  return createSignatureCheck({
    pool,
    logId,
    sealingKey: followSealingKey((await sealingKeyAt(pool, position)) ?? publicKey),
    after: position,
    signing,
    findKey,
    verifySignature,
    onUnsigned: ({ event }, problem) => onUnsigned(event, problem),
  })
}

/** Checks the signatures of events before they are sealed, in the memory of the sealing process. */
export type UnsealedCheck = {
  /** Whether events must be signed at the start of the check, according to the sealed events. */
  readonly beginsSigned: boolean
  /** The position after which `take` expects events. */
  next(): number
  /** Whether the last event that was taken is the end of a batch. */
  isWhole(): boolean
  take(events: readonly StoredEvent[]): Promise<void>
  /** The next step for the first event without a valid signature and without an acknowledgement; null without one. */
  problem(): Promise<string | null>
}

/** @param sealed the ordinal that the last seal covers; in Postgres it is the position of that event */
export const openUnsealedCheck = async (options: CheckedLog, sealed: number): Promise<UnsealedCheck> => {
  const startPlace = await readSignaturesBefore(options.pool, await options.log.logId(), sealed)
  const unsigned: Pick<Violation, 'eventId' | 'eventType' | 'rule' | 'problem'>[] = []
  const check = await startCheck(options, startPlace, ({ id: eventId, type: eventType }, problem) => {
    unsigned.push({ eventId, eventType, rule: signatureRule, problem })
  })
  let next = startPlace.position
  return {
    beginsSigned: startPlace.signing,
    next: () => next,
    isWhole: () => (check.last()?.position ?? startPlace.position) === next,
    async take(events) {
      await check.take(events, 0)
      next = events.at(-1)?.position ?? next
    },
    async problem() {
      for (let [first] = unsigned; first !== undefined; [first] = unsigned) {
        if (!(await isAcknowledged(options.log, first)))
          return `${violationText(first)}; "farebox ledger decide" acknowledges it`
        unsigned.shift()
      }
      return null
    },
  }
}

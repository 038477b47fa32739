import type { EventLog, StoredEvent } from '../../../platform/eventstore/port.ts'
import { sealStream } from '../../../terms/streams.ts'
import type { LogSealed, SealEvent } from '../events.ts'
import { foreignObject } from '../foreign-json.ts'
import { walkKeys } from '../seals-file.ts'
import { type EventPlace, type Findings, placeOf } from './finding.ts'

export type NextSeal = {
  readonly seal: LogSealed['data']
  readonly eventId: string
  /** Genuine, and by the pinned key or one that it handed over to. */
  readonly trusted: boolean
}

/** The seals of the log one after another, ahead of the events that they cover; a page of them in memory. */
export type SealCursor = {
  /** Null after the last. */
  current(): NextSeal | null
  advance(): Promise<void>
  /** Keeps a problem of a seal until its own event comes by. */
  report(seal: NextSeal, problem: string): void
  /** An event of the `seal` stream comes by. */
  pass(event: StoredEvent, ordinal: number, findings: Findings): void
  end(findings: Findings): void
  publicKey(): string | null
}

const sealEvent = (event: StoredEvent): SealEvent | null => {
  if (event.type !== 'LogSealed' && event.type !== 'SealKeyRotated') return null
  const data = foreignObject(event.data)
  return data === null ? null : ({ type: event.type, data } as SealEvent)
}

export const createSealCursor = async (options: {
  readonly log: Pick<EventLog, 'readStream'>
  readonly publicKey: string
}): Promise<SealCursor> => {
  const events = options.log.readStream(sealStream)[Symbol.asyncIterator]()
  const keys = walkKeys(options.publicKey)
  const problems = new Map<string, string>()
  /** Where the events of the stream stand that came by. */
  const places = new Map<string, EventPlace>()
  let current: NextSeal | null = null
  let seals = 0
  let trustedSeals = 0

  const advance = async (): Promise<void> => {
    for (;;) {
      const next = await events.next()
      if (next.done) {
        current = null
        return
      }
      const stored = next.value
      const event = sealEvent(stored)
      if (event === null) {
        problems.set(stored.id, 'it is neither a seal nor a change of its key')
        continue
      }
      const problem = keys.step(event)
      if (problem !== null) problems.set(stored.id, problem)
      if (event.type !== 'LogSealed') continue
      seals += 1
      const trusted = problem === null && keys.trusted()
      if (trusted) trustedSeals += 1
      if (!Number.isSafeInteger(event.data.throughOrdinal)) continue
      current = { seal: event.data, eventId: stored.id, trusted }
      return
    }
  }
  await advance()

  return {
    current: () => current,
    advance,
    report: ({ eventId }, problem) => {
      if (!problems.has(eventId)) problems.set(eventId, problem)
    },
    pass(event, ordinal, findings) {
      const place = placeOf(event, ordinal)
      places.set(event.id, place)
      const problem = problems.get(event.id)
      if (problem === undefined) return
      problems.delete(event.id)
      findings.add({ where: 'event', check: 'seals', event: place, problem })
    },
    end(findings) {
      for (const [id, problem] of problems) {
        const event = places.get(id)
        findings.add(
          event === undefined
            ? { where: 'log', check: 'seals', problem: `seal ${id}: ${problem}` }
            : { where: 'event', check: 'seals', event, problem },
        )
      }
      if (seals > 0 && trustedSeals === 0)
        findings.add({
          where: 'log',
          check: 'seals',
          problem: `none of its ${seals} seals is by the key ${options.publicKey} or by one that it handed over to; the last is by ${keys.publicKey}`,
        })
    },
    publicKey: () => keys.publicKey,
  }
}

import type pg from 'pg'
import { sealStream } from '../../kernel/streams.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'
import {
  createSignatureCheck,
  type OrdinalEvent,
  type SignatureSummary,
} from '../signatures/check-signatures.ts'
import { followSealingKey, keyBefore } from '../signatures/signing-keys.ts'
import { eventLocationOf, type Findings } from './finding.ts'

export type SignatureFindings = {
  /** Takes the next events of the log. Every event must be passed. */
  take(events: readonly StoredEvent[], firstOrdinal: number): Promise<void>
  end(): Promise<SignatureSummary>
}

/** The first sealing key, which must sign the first introductions; the pinned key in a log without seals. */
const firstSealingKey = async (log: Pick<EventLog, 'readStream'>, pinned: string): Promise<string> => {
  for await (const event of log.readStream(sealStream)) return keyBefore(event) ?? pinned
  return pinned
}

/**
 * Checks the log against the signatures of the processes that wrote it. Consecutive events with the same problem are
 * one finding.
 */
export const createSignatureFindings = async (options: {
  readonly pool: pg.Pool
  readonly log: Pick<EventLog, 'readStream' | 'logId'>
  readonly findings: Findings
  /** The key that must have sealed: from the settings, or pinned by the caller. */
  readonly publicKey: string
}): Promise<SignatureFindings> => {
  const { pool, log, findings, publicKey } = options
  let pendingFinding: { readonly first: OrdinalEvent; through: number; readonly problem: string } | null =
    null

  const flush = (): void => {
    if (pendingFinding === null) return
    const { first, through, problem } = pendingFinding
    pendingFinding = null
    findings.add(
      through === first.ordinal
        ? { where: 'event', check: 'signatures', event: eventLocationOf(first.event, first.ordinal), problem }
        : {
            where: 'events',
            check: 'signatures',
            fromOrdinal: first.ordinal,
            throughOrdinal: through,
            problem,
          },
    )
  }

  const check = createSignatureCheck({
    pool,
    logId: await log.logId(),
    sealingKey: followSealingKey(await firstSealingKey(log, publicKey)),
    onUnsigned: (ordinalEvent, problem) => {
      if (pendingFinding?.problem === problem && ordinalEvent.ordinal === pendingFinding.through + 1) {
        pendingFinding.through = ordinalEvent.ordinal
        return
      }
      flush()
      pendingFinding = { first: ordinalEvent, through: ordinalEvent.ordinal, problem }
    },
  })

  return {
    take: check.take,
    async end() {
      const problem = await check.end()
      flush()
      if (problem !== null) findings.add({ where: 'log', check: 'signatures', problem })
      return check.summary()
    },
  }
}

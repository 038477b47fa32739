import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { GiveWay } from '../../kernel/lulls.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import { readState } from '../../platform/eventstore/commands/handle.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'
import { sealStream } from '../../terms/streams.ts'
import { type LogChain, openChain } from './chain.ts'
import { decideSeal, type SealAnswer } from './decide.ts'
import type { DigestStore } from './digest-store.ts'
import type { LogSealed } from './events.ts'
import { type SealState, sealFold } from './fold.ts'
import { type SealKey, sealStatement } from './seal-key.ts'

/** The advisory lock of the process that seals: held while a server is running. */
export const sealerLock = 'sealer'

/** The log is not what was sealed, or is signed by another key: nothing more is sealed. The message says what to do. */
export class SealRefused extends Error {
  override readonly name = 'SealRefused'
}

export type SealingDeps = {
  readonly log: EventLog
  readonly runner: CommandRunner
  readonly store: DigestStore
  readonly key: SealKey
  readonly clock: Clock
  /** Called before each step of taking events. */
  readonly giveWay?: GiveWay
}

export type Sealing = {
  readonly chain: LogChain
  /**
   * Seals what the chain has taken; null when that is nothing but seals, or is sealed already.
   * @throws SealRefused, CommandOverload (the log cannot be reached; try again)
   */
  seal(cause: Cause): Promise<LogSealed['data'] | null>
}

/** The seals as the log has them now. */
export const readSeals = (runner: CommandRunner, cause: Cause): Promise<SealState> =>
  readState(runner, { ...cause, name: 'read-seals' }, { stream: sealStream, fold: sealFold })

const differs = (ordinal: number): SealRefused =>
  new SealRefused(
    `the events up to ordinal ${ordinal} are not those that were sealed: nothing more is sealed. Run "ledger verify" to see which event was changed`,
  )

/**
 * Seals the log on from its last seal. A seal is made only on a log that still has the digest of the seal before it.
 * @throws SealRefused when the kept digests are not those of the log's seals
 */
export const openSealing = async (deps: SealingDeps, cause: Cause): Promise<Sealing> => {
  const { log, runner, store, key, clock, giveWay } = deps
  let { last } = await readSeals(runner, cause)
  const chain = await openChain(store, last?.throughOrdinal ?? 0, giveWay)
  const { ordinal, position, eventId } = chain.end()
  if (ordinal > 0 && (await log.eventAt(position))?.id !== eventId)
    throw new SealRefused(
      `digests of ${ordinal} events are kept, but the log has not the last of them: it was cut off or changed, or restored to an earlier point. Run "ledger verify" against an exported seal; if it was restored on purpose, "ledger seal --remake-digests" goes on from what is there`,
    )

  /** The digest that the chain itself came to after this ordinal, or that an earlier process kept. */
  const assertHolds = async (seal: LogSealed['data']): Promise<void> => {
    const { ordinal, digest } = chain.end()
    if (ordinal < seal.throughOrdinal) return
    const found = ordinal === seal.throughOrdinal ? digest : await store.at(seal.throughOrdinal)
    if (found?.toString('hex') !== seal.digest) throw differs(seal.throughOrdinal)
  }
  if (last !== null) await assertHolds(last)

  const append = async (seal: LogSealed['data'], cause: Cause): Promise<SealAnswer> => {
    const from = { throughOrdinal: last?.throughOrdinal ?? 0, digest: last?.digest ?? '' }
    const { answer } = await runner.run({
      name: 'seal-log',
      streams: { seal: { stream: sealStream, fold: sealFold } },
      decide: (states) => decideSeal(states.seal, seal, from),
      ...cause,
    })
    return answer
  }

  return {
    chain,
    async seal(cause) {
      if (chain.unsealed() === 0) return null
      // Kept first: a seal in the log always finds its digests, and a log that cannot be written to is not sealed.
      await chain.keep()
      if (last !== null) await assertHolds(last)
      const { ordinal, eventId, digest } = chain.end()
      const unsigned = {
        throughOrdinal: ordinal,
        throughEventId: eventId,
        digest: digest.toString('hex'),
        sealedAt: isoTime(clock()),
        publicKey: key.publicKey,
      }
      const seal = { ...unsigned, signature: key.sign(sealStatement(unsigned)) }
      const answer = await append(seal, cause)
      switch (answer.outcome) {
        case 'sealed':
          last = seal
          chain.sealed(ordinal)
          return seal
        case 'moved':
          last = answer.last
          await assertHolds(last)
          chain.sealed(last.throughOrdinal)
          return null
        case 'key_retired':
          throw new SealRefused(
            `the log is sealed by the key ${answer.publicKey}, not by this process's ${key.publicKey}: start it with the new FAREBOX_SEAL_KEY`,
          )
        default:
          return answer satisfies never
      }
    },
  }
}

const pageSize = 5_000

/** Takes the log up to where it ends now. */
export const takeToHead = async (
  log: Pick<EventLog, 'readAll'>,
  chain: LogChain,
  onPage: (ordinal: number, position: number) => void = () => undefined,
): Promise<void> => {
  for (let page: readonly StoredEvent[]; ; ) {
    page = await log.readAll(chain.end().position, pageSize)
    await chain.take(page)
    onPage(chain.end().ordinal, chain.end().position)
    if (page.length < pageSize) return
  }
}

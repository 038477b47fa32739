import { Map as ImmutableMap } from 'immutable'
import type { Fold } from '../../../src/kernel/decider.ts'
import type { DomainEvent } from '../../../src/kernel/event.ts'
import { newEventId } from '../../../src/kernel/ids.ts'
import type { StreamName } from '../../../src/kernel/streams.ts'
import type { Command, CommandRunnerDependencies } from '../../../src/platform/commands/command.ts'
import { createCommandRunner } from '../../../src/platform/commands/command-runner.ts'
import { createCodec } from '../../../src/platform/eventstore/codec.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'

/** A purse: the smallest thing with a rule worth breaking. An id moves it once. */
export type Purse = { readonly balance: number; readonly moves: ImmutableMap<string, number> }
type Moved = DomainEvent<'Moved', { readonly id: string; readonly amount: number; readonly text?: string }>

export const purseFold: Fold<Purse, Moved> = {
  name: 'purse',
  version: 1,
  initial: { balance: 0, moves: ImmutableMap() },
  evolve: ({ balance, moves }, { data: { id, amount } }) => ({
    balance: balance + amount,
    moves: moves.set(id, amount),
  }),
  snapshot: {
    toText: ({ balance, moves }) => JSON.stringify({ balance, moves: moves.toObject() }),
    fromText: (text) => {
      const { balance, moves } = JSON.parse(text) as { balance: number; moves: Record<string, number> }
      return { balance, moves: ImmutableMap(moves) }
    },
    entries: ({ moves }) => moves.size,
  },
}

export type Note = { readonly written: boolean }
export const noteFold: Fold<Note, DomainEvent> = {
  name: 'note',
  version: 1,
  initial: { written: false },
  evolve: () => ({ written: true }),
}

export const purse = (name: string): StreamName => `ledger-${name}` as StreamName
export const note = (name: string): StreamName => `order-${name}` as StreamName

export type Verdict = 'moved' | 'repeated' | 'short'

const cause = { correlationId: 'test', actor: { kind: 'system', name: 'test' } } as const

/** Moves a purse; a balance below zero is refused, an id that moved it before changes nothing. */
export const move = (
  stream: StreamName,
  id: string,
  amount: number,
  text?: string,
): Command<{ purse: { stream: StreamName; fold: typeof purseFold } }, Verdict> => ({
  name: 'move',
  ...cause,
  streams: { purse: { stream, fold: purseFold } },
  decide({ purse: { balance, moves } }) {
    if (moves.has(id)) return { appends: [], answer: 'repeated' }
    if (balance + amount < 0) return { appends: [], answer: 'short' }
    const data = text === undefined ? { id, amount } : { id, amount, text }
    return { appends: [{ stream, events: [{ type: 'Moved', data }] }], answer: 'moved' }
  },
})

/**
 * Pays from a purse and writes a note, in two appends, as an order does: `order` is assumed new without a
 * read. It continues after a crash between the two.
 */
export const pay = (
  stream: StreamName,
  id: string,
  amount: number,
): Command<
  {
    purse: { stream: StreamName; fold: typeof purseFold }
    order: { stream: StreamName; fold: typeof noteFold; assume: 'absent' }
  },
  Verdict
> => ({
  name: 'pay',
  ...cause,
  streams: {
    purse: { stream, fold: purseFold },
    order: { stream: note(id), fold: noteFold, assume: 'absent' },
  },
  decide({ purse: { balance, moves }, order: { written } }) {
    if (written) return { appends: [], answer: 'repeated' }
    const written_ = { stream: note(id), events: [{ type: 'Noted', data: { id } }] }
    if (moves.has(id)) return { appends: [written_], answer: 'moved' }
    if (balance < amount) return { appends: [], answer: 'short' }
    const paid = { stream, events: [{ type: 'Moved', data: { id, amount: 0 - amount } }] }
    return { appends: [paid, written_], answer: 'moved' }
  },
})

export const codec = createCodec()

const silentLogger = { warn: () => {}, error: () => {} }

export const runnerOver = (log: EventLog, overrides: Partial<CommandRunnerDependencies> = {}) =>
  createCommandRunner({
    log,
    clock: Date.now,
    newEventId,
    codec,
    logger: silentLogger,
    ...overrides,
  })

/** A purse in the log. */
export const purseIn = async (log: EventLog, stream: StreamName): Promise<Purse> => {
  let state = purseFold.initial
  for await (const stored of log.readStream(stream)) {
    const event = codec.decode(stored)
    state = purseFold.evolve(state, {
      type: 'Moved',
      data: event.data as Moved['data'],
      revision: event.revision,
      recordedAtMs: Date.parse(event.metadata.recordedAt),
    })
  }
  return state
}

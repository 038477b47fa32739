import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { exportLedger } from '../../../src/features/exports/export-log.ts'
import type { Format } from '../../../src/features/exports/journal-formats.ts'
import type { Moment } from '../../../src/features/finance/input-forms.ts'
import { utcCalendar } from '../../../src/kernel/calendar.ts'
import type { DomainEvent } from '../../../src/kernel/event.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { accountStream, ledgerStream } from '../../../src/kernel/streams.ts'
import { createCodec } from '../../../src/platform/eventstore/codec.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { fileSink } from '../../../src/platform/outgoing/file-sink.ts'
import { play, type Step, startMs, steps } from '../../domain/ledger/support.ts'
import fc from '../../support/fast-check.ts'

export const codec = createCodec()

/** Two accounts and two resellers; the events of the real decisions for each step, in order of time. */
export type Owner = {
  readonly accountId: AccountId
  readonly reseller: boolean
  readonly steps: readonly Step[]
}

const isForResellers = ({ command }: Step): boolean => command.kind.startsWith('customer-')

export const owners: fc.Arbitrary<readonly Owner[]> = fc
  .tuple(steps, steps, steps, steps)
  .map(([one, two, three, four]) => [
    { accountId: 'acc_1a' as AccountId, reseller: false, steps: one.filter((s) => !isForResellers(s)) },
    { accountId: 'acc_2b' as AccountId, reseller: false, steps: two.filter((s) => !isForResellers(s)) },
    { accountId: 'acc_3c' as AccountId, reseller: true, steps: three },
    { accountId: 'acc_4d' as AccountId, reseller: true, steps: four },
  ])

const metadata = (atMs: number) => ({
  correlationId: randomUUID(),
  causationId: null,
  actor: { kind: 'operator', name: 'test' } as const,
  recordedAt: new Date(atMs).toISOString(),
})

/** Writes the owners' events into a log. */
export const writeBooks = async (log: EventLog, given: readonly Owner[]): Promise<void> => {
  const revisions = new Map<string, number>()
  const append = async (
    stream: Parameters<EventLog['append']>[0],
    atMs: number,
    events: readonly DomainEvent[],
  ) => {
    const last = revisions.get(stream) ?? -1
    const written = events.map((event) => ({ id: randomUUID(), ...codec.encode(event, metadata(atMs)) }))
    await log.append(stream, last === -1 ? 'noStream' : last, written)
    revisions.set(stream, last + events.length)
  }
  for (const { accountId, reseller } of given)
    await append(accountStream(accountId), startMs, [
      { type: 'AccountCreated', data: { accountId, reseller } },
    ])
  const played = given
    .flatMap(({ accountId, steps: list }) => play(list).map((done) => ({ accountId, ...done })))
    .sort((a, b) => a.nowMs - b.nowMs)
  for (const { accountId, nowMs, events } of played)
    if (events.length > 0) await append(ledgerStream(accountId), nowMs, events)
}

/** A directory that is gone with the test. */
export const scratch = async (t: TestContext): Promise<string> => {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-exports-'))
  t.after(() => rm(directory, { recursive: true, force: true }))
  return directory
}

/** The logs of tests are written at any time. */
const endOfTimes = Date.parse('9999-12-31T00:00:00.000Z')

export const exportTo = async (
  log: EventLog,
  path: string,
  format: Format,
  { book = null, until = null }: { book?: string | null; until?: Moment | null } = {},
) =>
  exportLedger(
    { log, decode: codec.decode, clock: () => endOfTimes, calendar: utcCalendar },
    await fileSink(path),
    {
      format,
      book,
      until,
    },
  )

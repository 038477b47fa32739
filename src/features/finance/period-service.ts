import { decideClose, decideCutOff } from '../../domain/periods/decide.ts'
import {
  type PeriodClosed,
  type PeriodCutOff,
  type PeriodEvent,
  periodFold,
} from '../../domain/periods/events.ts'
import type { Calendar } from '../../kernel/calendar.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Cause, RecordedEvent } from '../../kernel/event.ts'
import { nextPeriod, type Period, periodBefore, periodsThrough } from '../../kernel/months.ts'
import { periodStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { type EventCodec, readLog } from '../../platform/eventstore/codec.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'
import type { Scheduler } from '../../platform/work/scheduler.ts'
import { worker } from '../../platform/work/worker.ts'
import {
  closedOf,
  closingsOf,
  createPeriodEnds,
  createPeriodFold,
  differenceOf,
  inChartOf,
  type PeriodEnds,
  type PeriodReport,
} from './period-report.ts'

export type PeriodsDependencies = {
  readonly log: EventLog
  readonly runner: CommandRunner
  readonly decode: EventCodec['decode']
  /** Of the accounting time zone. */
  readonly calendar: Calendar
}

/** The month cannot be closed; nothing was written. */
export class PeriodRefused extends Error {
  override readonly name = 'PeriodRefused'
  readonly code: 'not_over' | 'no_such_period'
  constructor(code: PeriodRefused['code'], message: string) {
    super(message)
    this.code = code
  }
}

/** The log no longer gives the report that was recorded at the closing of the month. */
export class PeriodDiffers extends Error {
  override readonly name = 'PeriodDiffers'
}

export type ClosedPeriod = PeriodClosed['data'] & {
  readonly closedAtMs: number
  /** Whether this call closed it. */
  readonly now: boolean
}

/** A month of the log: closed, over (it can be closed, or soon), or under way. */
export type PeriodStatus = {
  readonly period: Period
  readonly status: 'closed' | 'over' | 'under way'
  /** The first instant after the month, milliseconds. */
  readonly endMs: number
  readonly closed: (PeriodClosed['data'] & { readonly closedAtMs: number }) | null
}

export type OnProgress = (position: number, events: number) => void

const recordedMs = (event: StoredEvent): number =>
  Date.parse((JSON.parse(event.metadata) as { recordedAt: string }).recordedAt)

/** The recorded ends of those months that were cut off, milliseconds. */
const readRecordedEnds = async (
  log: Pick<EventLog, 'readStreams'>,
  months: readonly Period[],
): Promise<ReadonlyMap<Period, number>> => {
  const cutOffs = await log.readStreams(
    months.map((period) => ({ stream: periodStream(period), from: 0 })),
    1,
  )
  return new Map(
    [...cutOffs.values()].flatMap(([first]) => {
      if (first?.type !== 'PeriodCutOff') return []
      const { period, endedAt } = JSON.parse(first.data) as PeriodCutOff['data']
      return [[period as Period, Date.parse(endedAt)] as const]
    }),
  )
}

type LogPeriods = PeriodEnds & {
  /** The month of the log's first event; null for an empty log. */
  readonly first: Period | null
  /** When the log's last event was recorded, milliseconds. */
  readonly lastMs: number
}

/** The ends of the months of a log. */
export const readPeriodEnds = async (
  log: Pick<EventLog, 'readAll' | 'readStreams' | 'eventAt' | 'head'>,
  calendar: Calendar,
): Promise<LogPeriods> => {
  const [first] = await log.readAll(0, 1)
  const last = await log.eventAt(await log.head())
  if (first === undefined || last === null)
    return { ...createPeriodEnds(calendar, new Map()), first: null, lastMs: 0 }
  const [firstMs, lastMs] = [recordedMs(first), recordedMs(last)]
  let through = nextPeriod(calendar.periodOf(lastMs))
  const months = periodsThrough(periodBefore(calendar.periodOf(firstMs)), through)
  const recorded = new Map(await readRecordedEnds(log, months))
  // A clock that ran back may have recorded the last event: later months are cut off, too.
  while (recorded.has(through)) {
    through = nextPeriod(through)
    for (const [period, endMs] of await readRecordedEnds(log, [through])) recorded.set(period, endMs)
  }
  const ends = createPeriodEnds(calendar, recorded)
  return { ...ends, first: ends.periodOf(firstMs), lastMs }
}

const stateOf = (events: readonly RecordedEvent[]) =>
  events.reduce(
    (state, event) =>
      periodFold.evolve(state, {
        ...(event as RecordedEvent<PeriodEvent>),
        recordedAtMs: Date.parse(event.metadata.recordedAt),
      }),
    periodFold.initial,
  )

export const createPeriods = ({ log, runner, decode, calendar }: PeriodsDependencies) => {
  const cutOff = async (period: Period, cause: Cause) => {
    const { answer } = await runner.run({
      name: 'cut-off-period',
      streams: { period: { stream: periodStream(period), fold: periodFold } },
      decide: (states, { nowMs }) =>
        decideCutOff(states.period, period, calendar.endOfPeriodMs(period), nowMs),
      ...cause,
    })
    return answer
  }

  const record = async (closed: PeriodClosed['data'], cause: Cause) => {
    const { answer } = await runner.run({
      name: 'close-period',
      streams: { period: { stream: periodStream(closed.period as Period), fold: periodFold } },
      decide: (states, { nowMs }) => decideClose(states.period, closed, nowMs),
      ...cause,
    })
    return answer
  }

  /**
   * Folds the log from its start until the last of these months can no longer change, and passes the report of each to
   * `onReport`. All were cut off.
   */
  const report = async (
    periods: ReadonlySet<Period>,
    ends: PeriodEnds,
    onReport: (report: PeriodReport) => Promise<void>,
    onProgress?: OnProgress,
  ): Promise<void> => {
    const fold = createPeriodFold(ends)
    const missingPeriods = new Set(periods)
    let events = 0
    for await (const page of readLog(log, await log.head())) {
      for (const stored of page)
        for (const endedReport of fold.take(decode(stored)))
          if (missingPeriods.delete(endedReport.period)) await onReport(endedReport)
      events += page.length
      onProgress?.(page.at(-1)?.position ?? 0, events)
      if (missingPeriods.size === 0) return
    }
    throw new Error(`the log ends before ${[...missingPeriods].join(', ')} is cut off`)
  }

  const statuses = async (
    first: Period,
    last: Period,
    ends: PeriodEnds,
    nowMs: number,
  ): Promise<readonly PeriodStatus[]> => {
    const periods = periodsThrough(first, last)
    const streams = await log.readStreams(
      periods.map((period) => ({ stream: periodStream(period), from: 0 })),
    )
    return periods.map((period) => {
      const endMs = ends.endMs(period)
      const state = stateOf((streams.get(periodStream(period)) ?? []).map(decode))
      if (state.status === 'closed') {
        const closed = { ...state.closed, closedAtMs: state.closedAtMs }
        return { period, status: 'closed', endMs, closed }
      }
      return { period, status: nowMs < endMs ? 'under way' : 'over', endMs, closed: null }
    })
  }

  return {
    /**
     * Closes a month that ended at least five minutes ago, and every earlier open one, so that closed months have no
     * gap. A closed month is not changed. After an interruption the next call continues.
     * @throws PeriodRefused before anything is written; errors of the runner and the log
     */
    async close(period: Period, cause: Cause, onProgress?: OnProgress): Promise<readonly ClosedPeriod[]> {
      const { first, ...ends } = await readPeriodEnds(log, calendar)
      if (first === null) throw new PeriodRefused('no_such_period', 'the log is empty')
      if (period < first) throw new PeriodRefused('no_such_period', `the log begins in ${first}`)
      const closed: ClosedPeriod[] = []
      const open = new Set<Period>()
      // The last month first, so that nothing is written if it is not over.
      for (const each of periodsThrough(first, period).toReversed()) {
        const answer = await cutOff(each, cause)
        if (answer.outcome === 'not over') {
          const from = new Date(answer.fromMs).toISOString()
          throw new PeriodRefused(
            'not_over',
            `${each} is not over: it can be closed from ${from} on; nothing was written`,
          )
        }
        if (answer.outcome === 'closed') {
          const { closed: recordedClosing, closedAtMs } = answer
          closed.unshift({ ...recordedClosing, closedAtMs, now: false })
        } else open.add(each)
      }
      if (open.size === 0) return closed
      const recordClosing = async (endedReport: PeriodReport): Promise<void> => {
        const { closed: recordedClosing, closedAtMs } = await record(closedOf(endedReport), cause)
        const difference = differenceOf(recordedClosing, closingsOf(endedReport))
        if (difference !== null) throw new PeriodDiffers(difference)
        closed.push({ ...recordedClosing, closedAtMs, now: true })
      }
      await report(open, ends, recordClosing, onProgress)
      return closed.sort((a, b) => (a.period < b.period ? -1 : 1))
    },

    /** Every month from the log's first to that of its last event, or that of the clock if it is later. */
    async list(nowMs: number): Promise<readonly PeriodStatus[]> {
      const { first, lastMs, ...ends } = await readPeriodEnds(log, calendar)
      return first === null ? [] : statuses(first, ends.periodOf(Math.max(nowMs, lastMs)), ends, nowMs)
    },

    /**
     * A month's report from the current log; for a month that is not over, its report so far.
     * @throws PeriodRefused for a month before the log or after its last event; PeriodDiffers
     */
    async show(period: Period, nowMs: number, onProgress?: OnProgress) {
      const { first, ...ends } = await readPeriodEnds(log, calendar)
      if (first === null) throw new PeriodRefused('no_such_period', 'the log is empty')
      if (period < first) throw new PeriodRefused('no_such_period', `the log begins in ${first}`)
      const [periodStatus] = await statuses(period, period, ends, nowMs)
      const fold = createPeriodFold(ends)
      let found: PeriodReport | null = null
      let events = 0
      for await (const page of readLog(log, await log.head())) {
        for (const stored of page)
          found ??= fold.take(decode(stored)).find((endedReport) => endedReport.period === period) ?? null
        events += page.length
        onProgress?.(page.at(-1)?.position ?? 0, events)
        if (found !== null) break
      }
      const shownReport = found ?? fold.open().find((each) => each.period === period)
      if (shownReport === undefined)
        throw new PeriodRefused('no_such_period', `nothing is booked in ${period}, or later, yet`)
      const closed = periodStatus?.closed ?? null
      const difference = closed === null ? null : differenceOf(closed, closingsOf(shownReport))
      if (difference !== null) throw new PeriodDiffers(difference)
      return {
        standing: periodStatus as PeriodStatus,
        report: closed === null ? shownReport : inChartOf(shownReport, closed),
      }
    },
  }
}

export type Periods = ReturnType<typeof createPeriods>

/** Blocks decisions while the process's clock reads a closed month. */
export type PeriodGuard = {
  /** Null while the clock reads an open month, else the problem. */
  problem(): string | null
  /** Checks the log now. Uses the last result if the log does not answer. */
  check(): Promise<void>
  stop(): Promise<void>
}

export const periodCheck = worker({
  name: 'period-guard',
  about: 'Checks that the clock reads no month that is closed',
  trigger: { everyMs: 5_000, quietMs: 60_000 },
  per: 'process',
  process: 'server',
})

/**
 * Checks now and every 5 seconds whether the month of the service's clock, or the month before it, is closed, so that a
 * clock that jumps back is detected at once. A decision before the process detects the closing is booked in the first
 * open month, because accounting time never decreases: this refusal informs people, the books do not depend on it.
 */
export const startPeriodGuard = async ({
  scheduler,
  log,
  clock,
  calendar,
  onChange,
}: {
  readonly scheduler: Scheduler
  readonly log: Pick<EventLog, 'readStreams'>
  readonly clock: Clock
  readonly calendar: Calendar
  /** Called once when the clock reads a closed month, and once when it reads an open one again. */
  readonly onChange: (problem: string | null) => void
}): Promise<PeriodGuard> => {
  let closedUntilMs = Number.NEGATIVE_INFINITY
  let isReported = false

  const problem = (): string | null => {
    const nowMs = clock()
    if (nowMs >= closedUntilMs) return null
    const period = calendar.periodOf(nowMs)
    return `the service's clock reads ${new Date(nowMs).toISOString()}, and ${period} is closed: the operator must set the clock right`
  }
  const reportChange = (): void => {
    const currentProblem = problem()
    if ((currentProblem !== null) === isReported) return
    isReported = currentProblem !== null
    onChange(currentProblem)
  }

  const refresh = async (): Promise<void> => {
    const month = calendar.periodOf(clock())
    const ends = await readRecordedEnds(log, [periodBefore(month), month])
    closedUntilMs = Math.max(closedUntilMs, ...ends.values())
  }
  // A clock that jumped back into a month that is known to be closed is reported without the log.
  const check = (): Promise<void> => refresh().finally(reportChange)

  await check().catch(() => undefined) // the log reports its own outage
  const { stop } = scheduler.start(periodCheck, check, { onError: () => periodCheck.trigger.everyMs })
  return { problem, check, stop }
}

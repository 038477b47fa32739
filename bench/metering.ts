import { meteringIntervalMs } from '../src/domain/plans/decide.ts'
import { createMeter } from '../src/features/plans/meter-traffic.ts'
import { newEventId, type PlanId } from '../src/kernel/ids.ts'
import { planStream } from '../src/kernel/streams.ts'
import type { CommandRunner } from '../src/platform/commands/command.ts'
import { encode } from '../src/platform/eventstore/codec.ts'
import { createLogger } from '../src/platform/http/logging.ts'
import { openPlanOf } from '../test/features/plans/open-plan.ts'
import { runnerOver } from '../test/platform/commands/purse.ts'
import { type Bench, cpuMs, figure } from './bench.ts'
import { type BenchLog, withLog } from './database.ts'
import { backendCpuMs } from './finance/backend-cpu.ts'

const clients = 32
const gateways = 4
/** Plans of one batch of a gateway, and how often each plan is in one. */
const batchPlans = 1_000
const rounds = 10
const reportBytes = 1_500_000
const petabyte = 1e15
const cause = { actor: { kind: 'system', name: 'bench' }, correlationId: 'bench' } as const
const metadata = { ...cause, causationId: null, recordedAt: '2026-11-21T02:30:00.000Z' }

/** Does `total` things, some of them at once. */
const inParallel = async (total: number, one: (n: number) => Promise<unknown>): Promise<void> => {
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < total) await one(next++)
  }
  await Promise.all(Array.from({ length: clients }, worker))
}

const openPlans = async (runner: CommandRunner, planIds: readonly PlanId[]): Promise<void> => {
  for (let from = 0; from < planIds.length; from += batchPlans)
    await Promise.all(
      planIds
        .slice(from, from + batchPlans)
        .map((planId, n) => openPlanOf(runner, `ord_${from + n}`, { planId, bytes: petabyte })),
    )
}

/** Does the work and prints what it cost a report; reports a second. */
const measured = async (
  { pool, log }: BenchLog,
  print: (line: string) => void,
  what: string,
  reports: number,
  work: () => Promise<void>,
): Promise<number> => {
  const look = async () => {
    const { rows } = await pool.query("select pg_current_wal_lsn() - '0/0'::pg_lsn as wal")
    return {
      wal: BigInt(rows[0].wal),
      head: await log.head(),
      postgresMs: (await backendCpuMs(pool, 'farebox-bench')) ?? Number.NaN,
      nodeMs: cpuMs(),
      atMs: performance.now(),
    }
  }
  const before = await look()
  await work()
  const after = await look()
  const each = (ms: number): string => `${figure((ms * 1000) / reports, 1)} µs`
  const rate = (reports * 1000) / (after.atMs - before.atMs)
  print(
    `${what}: ${figure(rate)} reports a second; each ${each(after.nodeMs - before.nodeMs)} of Node, ` +
      `${each(after.postgresMs - before.postgresMs)} of Postgres, ${figure(Number(after.wal - before.wal) / reports)} bytes of WAL; ` +
      `${figure(after.head - before.head)} events`,
  )
  return rate
}

/**
 * Traffic reports through the one port, as gateways send them and one by one, and what it costs to write counters to the
 * log. Everything is durable when it is answered.
 */
export const metering: Bench = {
  name: 'metering',
  what: 'traffic reports compared with one event per report (as in release 0.1.0) on the same log',
  run: ({ url, print, sizes: { plans } }) =>
    withLog(url, async (place) => {
      const { pool, log } = place
      let offsetMs = 0
      const clock = (): number => Date.now() + offsetMs
      const runner = runnerOver(log, { clock })
      try {
        const meter = createMeter({ pool, runner, clock, logger: createLogger('fatal') })
        const planIds = Array.from({ length: plans }, (_, n) => `pln_${n}` as PlanId)
        await openPlans(runner, planIds)
        let sequence = 0
        const batch = (reporter: string, from: number) => {
          sequence += 1
          const traffic = new Map(planIds.slice(from, from + batchPlans).map((id) => [id, reportBytes]))
          return meter.report({ reporter, sequence, traffic })
        }
        // Every plan is counted once before, so that what is measured is not the start of its counter.
        for (let from = 0; from < plans; from += batchPlans) await batch('first', from)

        const figures = (what: string, reports: number, work: () => Promise<void>) =>
          measured(place, print, what, reports, work)
        const batched = await figures(`batches of ${figure(batchPlans)} plans`, rounds * plans, async () => {
          let next = 0
          const gateway = async (which: number): Promise<void> => {
            while (next < rounds * plans) {
              const from = next % plans
              next += batchPlans
              await batch(`gateway ${which}`, from)
            }
          }
          await Promise.all(Array.from({ length: gateways }, (_, which) => gateway(which)))
        })
        const single = await figures(`one report a call, ${clients} at once`, plans, () =>
          inParallel(plans, (n) =>
            meter.reportOnce({ planId: planIds[n]!, reportId: 'bench', bytes: reportBytes }),
          ),
        )
        offsetMs += meteringIntervalMs
        await figures('counters that are due, to the log', plans, async () => {
          while ((await meter.sweep()) > 0);
        })
        const facts = await figures(`a fact a report, ${clients} at once`, plans, () =>
          inParallel(plans, async (n) => {
            const stream = planStream(planIds[n]!)
            const last = await log.lastOf(stream)
            const event = { type: 'TrafficMetered', data: { bytes: reportBytes, usedBytes: reportBytes } }
            await log.append(stream, last!.revision, [encode(event, metadata, newEventId())])
          }),
        )
        print(
          `compared with one event per report: ${figure(batched / facts, 1)} times as many a second in batches, ${figure(single / facts, 1)} one by one`,
        )
      } finally {
        await runner.close()
      }
    }),
}

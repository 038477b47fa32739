import type { TestContext } from 'node:test'
import { runCli } from '../../../src/app/cli-program.ts'
import type { Config } from '../../../src/app/config.ts'
import { utcCalendar } from '../../../src/kernel/calendar.ts'
import type { AccountId, OrderId, PlanId } from '../../../src/kernel/ids.ts'
import type { CliContext } from '../../../src/platform/cli/cli-context.ts'
import type { Register } from '../../../src/platform/cli/command.ts'
import { createKysely } from '../../../src/platform/postgres/kysely.ts'
import { silent } from '../../platform/projections/engine.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { testDatabase } from '../../support/postgres.ts'
import { playInto } from './support.ts'

/** A command line on a log in which acc_one bought a plan for $15.00 of its $100.00 and scraped for $0.0030. */
export const ledgerWorld = async (t: TestContext, rooms: readonly Register<Config>[]) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const one = 'acc_one' as AccountId
  const shop = await playInto(log, [
    (shop) => shop.buyPlan(one, 'ord_1' as OrderId, 'pln_1' as PlanId),
    async (shop) => shop.wait(86_400_000),
    (shop) => shop.scrape(one, 3000, 'capture'),
  ])
  const context = {
    pool,
    db: createKysely(pool),
    log,
    calendar: utcCalendar,
    clock: () => Date.parse('2026-12-24T12:00:00Z'),
    logger: silent,
  } as unknown as CliContext
  const run = async (...args: readonly string[]) => {
    const out: string[] = []
    const err: string[] = []
    const code = await runCli(args, rooms, {
      out: (text) => out.push(text),
      err: (text) => err.push(text),
      open: async () => ({ context, close: async () => undefined }),
    })
    return { code, out: out.join('\n'), err: err.join('\n') }
  }
  return { pool, log, shop, run, head: await log.head() }
}

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { runCli } from '../../../src/app/cli-program.ts'
import { commands as reconciliationCommands } from '../../../src/features/reconciliation/commands.ts'
import { utcCalendar } from '../../../src/kernel/calendar.ts'
import type { AccountId, CustomerId } from '../../../src/kernel/ids.ts'
import type { CliContext } from '../../../src/platform/cli/cli-context.ts'
import { createCodec } from '../../../src/platform/eventstore/codec.ts'
import { createKysely } from '../../../src/platform/postgres/kysely.ts'
import { runnerOver } from '../../platform/commands/world.ts'
import { silent } from '../../platform/projections/engine.ts'
import type { Shop } from '../../projections/shop.ts'
import { dataDirectory } from '../../support/farebox.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { testDatabase } from '../../support/postgres.ts'
import { playInto } from '../finance/support.ts'

export const one = 'acc_one' as AccountId
export const reseller = 'acc_two' as AccountId
export const ada = 'cus_ada' as CustomerId
export const dayMs = 86_400_000
export const clock = (): number => Date.parse('2026-12-24T12:00:00Z')

export const depositBy =
  (depositId: string, cents: number, known: object = {}) =>
  (shop: Shop) =>
    shop.deposit(one, cents, { gateway: 'stripe', reference: `cs_${depositId}`, depositId, ...known })
export const wait = (days: number) => async (shop: Shop) => shop.wait(days * dayMs)

/** The log begins on 2026-11-21. Payments on stripe, BTCPay and a reseller's own gateway. */
export const steps = [
  depositBy('dep_1', 2_500), // 21 November
  depositBy('dep_2', 1_000, { reference: 'pi_2' }), // an automatic top-up by a saved card
  (shop: Shop) =>
    shop.deposit(one, 1_200, {
      gateway: 'btcpay',
      reference: 'tx-0',
      depositId: 'dep_b1',
      amountMicros: 12_999_608,
    }),
  (shop: Shop) =>
    shop.deposit(one, 1_200, {
      gateway: 'btcpay',
      reference: 'tx-1',
      depositId: 'dep_b1',
      amountMicros: 500_000,
    }),
  (shop: Shop) =>
    shop.customerPays(reseller, ada, 3_000, { gateway: 'crd_ada', reference: 'cs_c', depositId: 'dep_c' }),
  wait(2), // 23 November
  (shop: Shop) =>
    shop.chargeBack(one, 2_500, { gateway: 'stripe', reference: 'stripe dp_1', depositId: 'dep_1' }),
  depositBy('dep_3', 4_000),
  wait(10), // 3 December
  (shop: Shop) =>
    shop.chargeBack(one, -2_500, { gateway: 'stripe', reference: 'stripe dp_1 txn_2', depositId: 'dep_1' }),
  depositBy('dep_4', 700),
]

export const world = async (t: TestContext, more: typeof steps = []) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  await playInto(log, [...steps, ...more])
  const runner = runnerOver(log, { clock })
  t.after(() => runner.close())
  const actor = { kind: 'operator', name: 'test' } as const
  const context = {
    pool,
    db: createKysely(pool),
    log,
    clock,
    calendar: utcCalendar,
    runner,
    codec: createCodec(),
    actor,
    correlationId: 'run_1',
    logger: silent,
  } as unknown as CliContext
  const folder = await dataDirectory(t)
  let files = 0
  const file = async (lines: readonly string[]): Promise<string> => {
    const path = join(folder, `${++files}.csv`)
    await writeFile(path, `${lines.join('\n')}\n`)
    return path
  }
  const finance = async (...args: readonly string[]) => {
    const out: string[] = []
    const err: string[] = []
    const code = await runCli(['finance', ...args], reconciliationCommands, {
      out: (text) => out.push(text),
      err: (text) => err.push(text),
      open: async () => ({ context, close: async () => undefined }),
    })
    return {
      code,
      out: out.join('\n').replaceAll(`${folder}/`, ''),
      err: err.join('\n').replaceAll(`${folder}/`, ''),
    }
  }
  const run = (...args: readonly string[]) => finance('reconcile', ...args)
  const json = async (...args: readonly string[]) => {
    const { code, out } = await run(...args, '--json')
    return { code, said: JSON.parse(out) }
  }
  return { pool, log, file, finance, run, json, runner }
}

export const heading =
  'balance_transaction_id,created_utc,currency,gross,fee,net,reporting_category,source_id,payment_metadata[deposit_id]'
export const payoutHeading =
  'payout_id,effective_at_utc,currency,balance_transaction_id,gross,fee,net,reporting_category'

export const november = ['--gateway', 'stripe', '--from', '2026-11-01', '--to', '2026-12-01'] as const
export const agreeing = [
  heading,
  'txn_1,2026-11-21 02:29:00,usd,25.00,1.03,23.97,charge,ch_1,dep_1',
  'txn_2,2026-11-21 02:29:30,usd,10.00,0.59,9.41,charge,ch_2,dep_2',
  'txn_3,2026-11-23 01:00:00,usd,-25.00,15.00,-40.00,dispute,dp_1,dep_1',
  'txn_4,2026-11-23 01:00:00,usd,40.00,1.46,38.54,charge,ch_3,dep_3',
  'txn_5,2026-11-23 03:00:00,usd,-0.30,0.00,-0.30,fee,,',
]

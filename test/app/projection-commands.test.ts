import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { groups } from '../../projections/groups.ts'
import { appCommands } from '../../src/app/app-commands.ts'
import { runCli } from '../../src/app/cli-program.ts'
import type { AccountId } from '../../src/kernel/ids.ts'
import type { CliContext } from '../../src/platform/cli/cli-context.ts'
import { createKysely } from '../../src/platform/postgres/kysely.ts'
import { masterKey } from '../../src/platform/vault/keys.ts'
import { caughtUp, startEngine } from '../platform/projections/engine.ts'
import { createShop } from '../projections/shop.ts'
import { createMemoryLog } from '../support/memory-log.ts'
import { testDatabase } from '../support/postgres.ts'

const keys = { master: masterKey(Buffer.alloc(32, 7)) }

const world = async (t: TestContext) => {
  const { pool } = await testDatabase(t)
  const log = createMemoryLog()
  const engine = await startEngine(t, pool, log, groups)
  await createShop(log, Date.parse('2026-11-21T00:00:00.000Z')).credit('acc_one' as AccountId, 100)
  await caughtUp(engine, log)
  const run = async (...args: readonly string[]) => {
    const lines: string[] = []
    const code = await runCli(args, appCommands, {
      out: (text) => lines.push(text),
      err: () => undefined,
      // The rest of a context is not for this command.
      open: async () => ({
        context: { pool, db: createKysely(pool), log, keys } as unknown as CliContext,
        close: async () => undefined,
      }),
    })
    return { code, out: lines.join('\n') }
  }
  return { pool, run }
}

test('all read models are rebuilt while a server runs, and the result is printed as JSON', async (t) => {
  const { run } = await world(t)
  const { code, out } = await run('projections', 'rebuild', 'all', '--json')
  assert.equal(code, 0)
  const [result] = JSON.parse(out).results
  assert.deepEqual(result.differences, [])
  assert.deepEqual([result.group, result.events, result.exchanged], ['hot', 1, true])
})

test('a check reports a changed row by name and does not repair it', async (t) => {
  const { pool, run } = await world(t)
  await pool.query('update read.balances set available_micros = 5')
  const checked = await run('projections', 'rebuild', 'balances', '--check', '--json')
  assert.equal(checked.code, 1)
  assert.equal(JSON.parse(checked.out).code, 'read_models_differ')
  assert.match(checked.out, /available_micros was 5, the log says 1000000/)
  const repaired = await run('projections', 'rebuild', 'balances')
  assert.equal(repaired.code, 0)
  assert.match(repaired.out, /DIFFERENT balances .*acc_one.*available_micros was 5, the log says 1000000/)
  assert.equal((await run('projections', 'rebuild', 'balances', '--check')).code, 0)
})

test('an unknown name is refused with the list of known names', async (t) => {
  const { run } = await world(t)
  const { code, out } = await run('projections', 'rebuild', 'wallets', '--json')
  assert.equal(code, 2)
  assert.match(JSON.parse(out).error, /there is no read model wallets; there are balances, .*orders,/)
})

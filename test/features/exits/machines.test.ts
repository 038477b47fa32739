import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ExitVia } from '../../../src/domain/exits/events.ts'
import { parseUsername } from '../../../src/domain/exits/line.ts'
import { createExitHealth } from '../../../src/features/exits/exit-health.ts'
import { createExitService } from '../../../src/features/exits/exit-service.ts'
import { parseExits } from '../../../src/features/exits/import-exits.ts'
import { createExitLogins, createLiveExits } from '../../../src/features/exits/live-exits.ts'
import { openExits } from '../../../src/gateway/exits/open-exits.ts'
import { createVault } from '../../../src/platform/vault/seal.ts'
import { atEnd } from '../../support/cleanup.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

const cause = { actor: { kind: 'operator', name: 'test' }, correlationId: 'run_test' } as const
const addressOf = { east: '198.18.1.1', west: '198.18.2.1' } as const
type Machine = keyof typeof addressOf

test('each of two machines knows the state of its own addresses only', async (t) => {
  const { farebox } = await testApp(t, { own: true, settings: { FAREBOX_SANDBOX: 'off' } })
  const { pool, runner, keys, clock, logger } = farebox.core
  const logins = createExitLogins({ pool, vault: createVault(keys.master) })
  const file = [
    { id: 'at-east', kind: 'direct', localAddress: addressOf.east, country: 'us' },
    { id: 'at-west', kind: 'direct', localAddress: addressOf.west, country: 'de' },
  ]
  const parsed = parseExits(file.map((line) => JSON.stringify(line)).join('\n'))
  assert.ok(parsed.ok)
  await createExitService({ runner, logins }).import(parsed.exits, cause)

  /** Addresses that a machine has, by its name; changed by the test. */
  const has: Record<Machine, Set<string>> = {
    east: new Set([addressOf.east]),
    west: new Set([addressOf.west]),
  }
  const openAt = async (machine: Machine) => {
    const opened = await openExits({
      scheduler: testScheduler({ pool }),
      pool,
      vault: createVault(keys.master),
      sandbox: false,
      allowLoopback: false,
      workers: 1,
      clock,
      random: Math.random,
      logger,
      machine,
      probe: async ({ via }: { readonly via: ExitVia }) => {
        const ok = via.kind === 'direct' && has[machine].has(via.localAddress ?? '')
        return { ok, latencyMs: 1, problem: ok ? null : 'EADDRNOTAVAIL' }
      },
    })
    atEnd(t, opened.stop)
    await until(() => opened.live.index().serving.length === 2, { what: 'both exits' })
    const reaches = async (country: string): Promise<boolean> => {
      const line = parseUsername(`u7k2m9x4-country-${country}`)
      assert.ok(line.ok)
      const found = await opened.exits.route({ holder: 'pln_one', line: line.line, udp: false })
      if (!found.denied) found.close()
      return !found.denied
    }
    return async () => `${await reaches('us')} ${await reaches('de')}`
  }
  const [east, west] = [await openAt('east'), await openAt('west')]
  await until(async () => (await east()) === 'true false', { what: "east's own address alone" })
  await until(async () => (await west()) === 'false true', { what: "west's own address alone" })

  // A process without a gateway lists what any machine can serve.
  const health = createExitHealth({
    table: { recordFailure: assert.fail },
    onError: (error) => assert.fail(String(error)),
  })
  const looking = createLiveExits({
    pool,
    logins,
    health,
    sticky: null,
    sandbox: false,
  })
  const listed = async (): Promise<string> => {
    await looking.refresh()
    return `${health.isAlive('at-east')} ${health.isAlive('at-west')}`
  }
  await until(async () => (await listed()) === 'true true', { what: 'an exit that lives somewhere' })
  has.east.clear()
  await until(async () => (await listed()) === 'false true', {
    timeoutMs: 10_000,
    what: 'the last machine to lose it',
  })
  assert.equal(await west(), 'false true')
  has.east.add(addressOf.east)
  await until(async () => (await listed()) === 'true true', { timeoutMs: 10_000, what: 'its return' })
  const { rowCount } = await pool.query('select from work.exit_health')
  assert.equal(rowCount, 0, 'no machine reported an address of its own to the others')
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createExitService } from '../../../src/features/exits/exit-service.ts'
import { type ImportedExit, parseExits } from '../../../src/features/exits/import-exits.ts'
import { createExitLogins } from '../../../src/features/exits/live-exits.ts'
import { openExits } from '../../../src/gateway/exits/open-exits.ts'
import { createTargetRules, defaultTargetPolicy } from '../../../src/gateway/targets.ts'
import { createVault } from '../../../src/platform/vault/seal.ts'
import { atEnd } from '../../support/cleanup.ts'
import { testScheduler } from '../../support/scheduler.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

test("exits that are imported while the gateway runs end the permission of the sandbox's exits, as at its start", async (t) => {
  const app = await testApp(t)
  const { pool, runner, keys, clock, logger } = app.core
  const vault = createVault(keys.master)
  const common = { pool, vault, sandbox: true, allowLoopback: true, workers: 1, clock, logger }
  const open = () => openExits({ ...common, scheduler: testScheduler({ pool }), random: Math.random })
  const opened = await open()
  atEnd(t, opened.stop)
  const rules = createTargetRules(
    defaultTargetPolicy,
    { has: () => false, ports: new Set() },
    opened.allowsLoopback,
  )
  assert.equal(rules.refusedAddress('127.0.0.1', 80, false), null)
  const parsed = parseExits('{"id": "own", "kind": "direct", "localAddress": "127.0.0.1", "country": "de"}')
  assert.ok(parsed.ok)
  await createExitService({ runner, logins: createExitLogins({ pool, vault }) }).import(
    parsed.exits as readonly ImportedExit[],
    { actor: { kind: 'operator', name: 'test' }, correlationId: 'run_test' },
  )
  await until(() => !opened.allowsLoopback(), { what: 'the end of the allowance' })
  for (const address of ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1'])
    assert.equal(rules.refusedAddress(address, 80, false)?.status, 464, address)
  assert.equal(rules.refusedHost({ host: 'localhost', family: 0, port: 80 }, false)?.status, 464)
  await assert.rejects(open(), { name: 'StartRefused' })
})

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { violationsTable } from '../../src/audit/invariants/invariant.ts'
import { invariants, rulesDigest } from '../../src/audit/invariants/invariants.ts'
import type { RecordedEvent } from '../../src/kernel/event.ts'
import { definitionOf } from '../../src/platform/projections/definition.ts'
import { foldBatch } from '../../src/platform/projections/fold-batch.ts'
import { createRowCache } from '../../src/platform/projections/row-cache.ts'
import { commandLineOf } from '../support/operator.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'
import { blocking, buy, giveMoney, readyz, sealedThrough } from './monitored.ts'
import { allEvents } from './world.ts'

describe('the invariants that a running server checks', () => {
  test('money without a reason stops sealing and its account only, until an operator acknowledges it', async (t) => {
    const app = await testApp(t, { own: true, settings: blocking, audits: true })
    const { farebox } = app
    const cli = commandLineOf(farebox)
    const thief = await app.customer({ email: 'thief@example.com', cents: 2_000 })
    const other = await app.customer({ email: 'other@example.com', cents: 50_000 })
    assert.equal(await buy(app, thief.key), 201)
    await until(async () => (await readyz(app)).note === 'ok', {
      timeoutMs: 20_000,
      everyMs: 200,
      what: 'checked invariants',
    })

    const eventId = await giveMoney(app, thief.accountId)
    await until(async () => (await buy(app, thief.key)) === 403, {
      timeoutMs: 20_000,
      everyMs: 200,
      what: 'a block',
    })
    const said = await readyz(app)
    assert.equal(said.status, 200, 'orders of the others can be placed')
    assert.match(said.note, new RegExp(`WalletCredited ${eventId} breaks .*pay_none.*ledger decide`))
    assert.equal(await buy(app, other.key), 201)

    const ordinal = (await allEvents(farebox.core.log)).findIndex(({ id }) => id === eventId) + 1
    assert.ok((await sealedThrough(app)) < ordinal, 'it is not sealed')
    const refused = await cli('ledger', 'seal')
    assert.equal(refused.code, 1)
    assert.equal(JSON.parse(refused.out).code, 'law_broken')
    const listed = await cli('ledger', 'breaches')
    assert.equal(listed.code, 1)
    const [found] = JSON.parse(listed.out).breaches
    assert.deepEqual([found.eventId, found.accountId, found.decision], [eventId, thief.accountId, null])

    const unknown = await cli('ledger', 'decide', 'evt_none', '--reason', 'why not')
    assert.equal(unknown.code, 2, unknown.err)
    const why = ['--reason', 'a gift that was written by hand']
    for (const _ of [1, 2]) assert.equal((await cli('ledger', 'decide', eventId, ...why)).code, 0)
    const decisions = (await allEvents(farebox.core.log)).filter(({ type }) => type === 'LawBreachDecided')
    assert.equal(decisions.length, 1, 'it is on record once')
    await until(async () => (await sealedThrough(app)) >= ordinal, {
      timeoutMs: 30_000,
      everyMs: 200,
      what: 'a seal',
    })
    await until(async () => (await readyz(app)).note === 'ok', {
      timeoutMs: 20_000,
      everyMs: 200,
      what: 'no alarm',
    })

    assert.equal((await cli('accounts', 'unblock', thief.accountId)).code, 0)
    await until(async () => (await buy(app, thief.key)) === 201, {
      timeoutMs: 20_000,
      everyMs: 200,
      what: 'an order',
    })
    const verified = await cli('ledger', 'verify')
    assert.equal(verified.code, 1, 'an auditor still sees it')
    assert.match(verified.out, /pay_none.* decided on .* that it stands: a gift that was written by hand/)
  })

  test('an event that no invariant can read is a violation and stops nothing else', async () => {
    const metadata = { recordedAt: '2026-11-21T00:00:00.000Z', actor: { kind: 'system', name: 'x' } }
    const events = ['WalletDebited', 'OrderCompleted', 'DepositOpened', 'AddressesAllocated'].map(
      (type, at) => ({
        id: `evt_${at}`,
        stream: 'ledger-acc_1',
        revision: at,
        position: at + 1,
        type,
        data: { order: null, accountId: 7 },
        metadata,
      }),
    ) as unknown as RecordedEvent[]
    const { tables } = await foldBatch({
      models: [invariants],
      events,
      cache: createRowCache({ maxRows: 1_000, complete: true }),
      load: async () => [],
    })
    const found = tables.find(({ table }) => table.name === violationsTable.name)
    const broken = new Set(found?.put.map((row) => row.eventId))
    assert.deepEqual(
      [...broken].sort(),
      events.map(({ id }) => id),
    )
    assert.ok(found?.put.some(({ problem }) => /the rule cannot read it/.test(String(problem))))
  })

  test('rule sets with the same sum of versions are not the same rule set', () => {
    const one = { name: 'one', version: 1 }
    const two = { name: 'two', version: 2 }
    const exchanged = [
      { ...one, version: 2 },
      { ...two, version: 1 },
    ]
    assert.notEqual(rulesDigest([one, two]), rulesDigest(exchanged))
    assert.notEqual(
      definitionOf({ ...invariants, content: rulesDigest([one, two]) }).digest,
      definitionOf({ ...invariants, content: rulesDigest(exchanged) }).digest,
    )
  })
})

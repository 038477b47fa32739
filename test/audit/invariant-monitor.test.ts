import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import { invariants } from '../../src/audit/invariants/invariants.ts'
import { violationsTable } from '../../src/audit/invariants/violation.ts'
import { listSeals } from '../../src/audit/seals/seal-queries.ts'
import type { RecordedEvent } from '../../src/kernel/event.ts'
import { newEventId } from '../../src/kernel/ids.ts'
import { foldBatch } from '../../src/platform/projections/fold-batch.ts'
import { createRowCache } from '../../src/platform/projections/row-cache.ts'
import { freshAccount } from '../support/console.ts'
import { asOperator } from '../support/demo-env.ts'
import { operate } from '../support/operator.ts'
import { type Service, startService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { allEvents, tamper } from './world.ts'

const sealing = { FAREBOX_SEAL_SECONDS: '1' }
const plan = { product_id: 'residential-premium', quantity: 1 }

const buy = async (service: Service, key: string): Promise<number> =>
  (await service.buyer.post('/api/v1/orders', plan, { key, headers: { 'idempotency-key': randomUUID() } }))
    .status

const sealedThrough = async ({ farebox }: Service): Promise<number> => {
  const { seals } = await listSeals(farebox.core.log, { limit: 1, offset: 0 })
  return seals[0]?.throughOrdinal ?? 0
}

const readyz = async ({ baseUrl }: Service): Promise<{ status: number; laws: string }> => {
  const answer = await fetch(`${baseUrl}/readyz`, asOperator)
  const { notes } = (await answer.json()) as { notes?: { laws: string } }
  return { status: answer.status, laws: notes?.laws ?? 'not looked at' }
}

/** What an insider with the database does: a credit that fits the wallet's figures and answers to no deposit. */
const giveMoney = async ({ farebox }: Service, accountId: string): Promise<string> => {
  const { log } = farebox.core
  const of = (await allEvents(log)).filter(({ stream }) => stream === `ledger-${accountId}`)
  const credit = of.find(({ type }) => type === 'WalletCredited')
  const last = of.at(-1)
  assert.ok(credit && last)
  const amountMicros = 5_000_000_000
  const data = {
    ...JSON.parse(credit.data),
    amountMicros,
    reference: 'pay_none',
    availableAfterMicros: JSON.parse(last.data).availableAfterMicros + amountMicros,
  }
  const id = newEventId()
  const { stream, type, metadata } = credit
  await log.append(stream, last.revision, [{ id, type, data: JSON.stringify(data), metadata }])
  return id
}

describe('the laws that a running server holds events against', () => {
  test('money without a reason is not sealed, stops its account alone, and stands once an operator says why', async (t) => {
    const service = await startService(t, sealing)
    const { env, farebox } = service
    const thief = await freshAccount(service, 'thief@example.com', { cents: 2_000 })
    const other = await freshAccount(service, 'other@example.com', { cents: 50_000 })
    assert.equal(await buy(service, thief.key), 201)
    await until(async () => (await readyz(service)).laws === 'ok', {
      timeoutMs: 20_000,
      what: 'checked laws',
    })

    const eventId = await giveMoney(service, thief.accountId)
    await until(async () => (await buy(service, thief.key)) === 403, { timeoutMs: 20_000, what: 'a block' })
    const said = await readyz(service)
    assert.equal(said.status, 200, 'orders of the others can be placed')
    assert.match(said.laws, new RegExp(`WalletCredited ${eventId} breaks .*pay_none.*ledger decide`))
    assert.equal(await buy(service, other.key), 201)

    const ordinal = (await allEvents(farebox.core.log)).findIndex(({ id }) => id === eventId) + 1
    assert.ok((await sealedThrough(service)) < ordinal, 'it is not sealed')
    const refused = await operate(['ledger', 'seal', '--json'], env)
    assert.equal(refused.code, 1)
    assert.equal(JSON.parse(refused.out).code, 'law_broken')
    const listed = await operate(['ledger', 'breaches', '--json'], env)
    assert.equal(listed.code, 1)
    const [breach] = JSON.parse(listed.out).breaches
    assert.deepEqual([breach.eventId, breach.accountId, breach.decision], [eventId, thief.accountId, null])

    const unknown = await operate(['ledger', 'decide', 'evt_none', '--reason', 'why not'], env)
    assert.equal(unknown.code, 2, unknown.err)
    const why = ['--reason', 'a gift that was written by hand']
    for (const _ of [1, 2]) assert.equal((await operate(['ledger', 'decide', eventId, ...why], env)).code, 0)
    const decisions = (await allEvents(farebox.core.log)).filter(({ type }) => type === 'LawBreachDecided')
    assert.equal(decisions.length, 1, 'it is on record once')
    await until(async () => (await sealedThrough(service)) >= ordinal, { timeoutMs: 30_000, what: 'a seal' })
    await until(async () => (await readyz(service)).laws === 'ok', { timeoutMs: 20_000, what: 'no alarm' })

    assert.equal((await operate(['accounts', 'unblock', thief.accountId], env)).code, 0)
    await until(async () => (await buy(service, thief.key)) === 201, { timeoutMs: 20_000, what: 'an order' })
    const verified = await operate(['ledger', 'verify', '--json'], env)
    assert.equal(verified.code, 1, 'an auditor still sees it')
    assert.match(verified.out, /pay_none.* decided on .* that it stands: a gift that was written by hand/)
  })

  test('a lawful event that no process signed is not sealed, stops its account, and stands once an operator says why', async (t) => {
    const service = await startService(t, sealing)
    const { env, farebox } = service
    const account = await freshAccount(service, 'added@example.com', { cents: 50_000 })
    assert.equal(await buy(service, account.key), 201)
    await until(async () => (await readyz(service)).laws === 'ok', {
      timeoutMs: 20_000,
      what: 'checked laws',
    })
    const last = (await allEvents(farebox.core.log)).findLast(
      ({ stream }) => stream === `account-${account.accountId}`,
    )
    assert.ok(last)
    const eventId = newEventId()
    await tamper(
      farebox.core.pool,
      [
        `insert into log.events (position, stream, revision, id, type, data, metadata)
         select last_position + 1, $1, $2, $3, 'AccountUnblocked', $4, $5 from log.head`,
        [last.stream, last.revision + 1, eventId, '{}', last.metadata],
      ],
      ['update log.head set last_position = last_position + 1'],
    )
    await until(async () => (await buy(service, account.key)) === 403, { timeoutMs: 20_000, what: 'a block' })
    const listed = await operate(['ledger', 'breaches', '--json'], env)
    assert.match(listed.out, new RegExp(`${eventId}.*signed-by-its-process.*added past the service`))
    const ordinal = (await allEvents(farebox.core.log)).findIndex(({ id }) => id === eventId) + 1
    assert.ok((await sealedThrough(service)) < ordinal, 'it is not sealed')
    assert.equal((await operate(['ledger', 'decide', eventId, '--reason', 'a test'], env)).code, 0)
    await until(async () => (await sealedThrough(service)) >= ordinal, { timeoutMs: 30_000, what: 'a seal' })
    const verified = await operate(['ledger', 'verify', '--json'], env)
    assert.match(verified.out, /no process signed it/, 'an auditor still sees it')
  })

  test('an event that no law can read breaks them, and stops nothing', async () => {
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
    const broken = new Set(found?.put.map((row) => row.event_id))
    assert.deepEqual(
      [...broken].sort(),
      events.map(({ id }) => id),
    )
    assert.ok(found?.put.some(({ problem }) => /the rule cannot read it/.test(String(problem))))
  })

  test('a server that is told so seals without them', async (t) => {
    const service = await startService(t, { ...sealing, FAREBOX_LAWS: 'off' })
    const account = await freshAccount(service, 'gift@example.com', { cents: 2_000 })
    await giveMoney(service, account.accountId)
    const events = (await allEvents(service.farebox.core.log)).length
    await until(async () => (await sealedThrough(service)) >= events, { timeoutMs: 20_000, what: 'a seal' })
    assert.equal((await readyz(service)).laws, 'not looked at')
    assert.equal(await buy(service, account.key), 201)
  })
})

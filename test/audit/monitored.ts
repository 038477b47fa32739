import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { TestContext } from 'node:test'
import { createCheckedEvents } from '../../src/audit/checked-events.ts'
import { invariantMonitor, startViolationMonitor } from '../../src/audit/invariant-monitor.ts'
import { listSeals } from '../../src/audit/seals/seal-queries.ts'
import { newEventId } from '../../src/kernel/ids.ts'
import { createScheduler } from '../../src/platform/work/scheduler.ts'
import { asOperator } from '../support/demo-env.ts'
import type { TestApp } from '../support/test-app.ts'
import { allEvents } from './world.ts'

export const sealing = { FAREBOX_SEAL_SECONDS: '1', FAREBOX_AUDIT_ACTION: 'stop-sealing' }
export const blocking = { ...sealing, FAREBOX_AUDIT_ACTION: 'block' }
export const plan = { product_id: 'residential-premium', quantity: 1 }

export const buy = async (app: TestApp, key: string): Promise<number> =>
  (await app.buyer.post('/api/v1/orders', plan, { key, headers: { 'idempotency-key': randomUUID() } })).status

export const sealedThrough = async ({ farebox }: TestApp): Promise<number> => {
  const { seals } = await listSeals(farebox.core.log, { limit: 1, offset: 0 })
  return seals[0]?.throughOrdinal ?? 0
}

export const ordinalOfLastOrder = async ({ farebox }: TestApp): Promise<number> =>
  (await allEvents(farebox.core.log)).findLastIndex(({ type }) => type === 'OrderCompleted') + 1

export const readyz = async ({ baseUrl }: TestApp): Promise<{ status: number; note: string }> => {
  const answer = await fetch(`${baseUrl}/readyz`, asOperator)
  const { notes } = (await answer.json()) as { notes?: { laws: string } }
  return { status: answer.status, note: notes?.laws ?? 'not looked at' }
}

export const metrics = async ({ baseUrl }: TestApp): Promise<string> =>
  (await fetch(`${baseUrl}/metrics`, asOperator)).text()

/** A monitor as another process starts it, once it has processed all open violations. */
export const restartMonitor = async (t: TestContext, { farebox, auditor }: TestApp): Promise<void> => {
  const { core, config } = farebox
  const scheduler = createScheduler({ ...core, workers: [invariantMonitor], place: null })
  t.after(() => scheduler.stop())
  const rounds: (() => Promise<void>)[] = []
  startViolationMonitor({
    ...core,
    scheduler: {
      ...scheduler,
      start: (worker, round) => {
        rounds.push(round)
        return scheduler.start(worker, round)
      },
    },
    checked: createCheckedEvents({ ...core, master: core.keys.master }),
    progress: auditor!.core.projecting.progress,
    blocks: config.auditAction === 'block',
  })
  await rounds[0]?.()
}

/** What an insider with the database does: a credit that fits the wallet's figures and answers to no deposit. */
export const giveMoney = async ({ farebox }: TestApp, accountId: string): Promise<string> => {
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

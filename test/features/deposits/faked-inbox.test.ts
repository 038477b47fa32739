import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

test('rows of the inbox that SQL marks as processed hide neither a payment nor a dispute', async (t) => {
  const app = await testApp(t, { own: true, settings: { FAREBOX_DEPOSIT_LOOK_MS: '500' } })
  await app.core.pool.query(`
    create function work.fake_inbox() returns trigger language plpgsql as $$
    begin
      new.status := 'done';
      new.finished_at := now();
      return new;
    end $$;
    create trigger fake_inbox before insert on work.gateway_inbox
      for each row execute function work.fake_inbox()`)
  const { key } = await app.customer({ cents: 0 })
  const { deposit_id: id } = await app.openDeposit(key, { amount_cents: 1_000, method: 'card' })
  await app.act(id, 'pay', 1_000)
  await app.untilBalance(key, 1_000)
  await app.act(id, 'dispute')
  // The first search stores the dispute, and a later one takes it.
  await until(
    async () => {
      app.wait(61 * 60_000)
      return until(async () => (await app.balance(key)) === 0, { timeoutMs: 3_000 })
    },
    { timeoutMs: 60_000 },
  )
  const { rows } = await app.core.pool.query(
    `select attempts from work.gateway_inbox where event_id like 'found dp_%'`,
  )
  assert.deepEqual(rows, [{ attempts: 0 }])
})

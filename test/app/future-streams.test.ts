import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { groups } from '../../projections/groups.ts'
import { findingText } from '../../src/audit/checks/finding.ts'
import { sealKeyOf } from '../../src/audit/seals/seal-key.ts'
import { verifyLog } from '../../src/audit/verify.ts'
import { newId } from '../../src/kernel/ids.ts'
import { openStage } from '../contract/stage.ts'
import { skipWithoutPostgresLog } from '../support/service.ts'
import { until } from '../support/until.ts'

const dayMs = 86_400_000

describe('when the clocks of server and Postgres were ahead for a while', {
  skip: skipWithoutPostgresLog,
}, () => {
  test('accounts that bought meanwhile buy on, at the time that it is', async (t) => {
    let offsetMs = 0
    // An offset moves the time of the service as two clocks that are both ahead do.
    const stage = await openStage(t, { FAREBOX_SEAL_SECONDS: '1' }, { clockOffsetMs: () => offsetMs })
    const { core } = stage.farebox
    const { key } = await stage.customer({ cents: 50_000 })
    const order = () =>
      stage.client.post('/api/v1/orders', { product_id: 'residential-premium', quantity: 1 }, { key })
    const sealed = async () => {
      const head = await core.log.head()
      await until(
        async () =>
          (
            await core.pool.query('select 1 from log.events where type = $1 and position > $2', [
              'LogSealed',
              head,
            ])
          ).rowCount === 1,
        { what: 'a seal' },
      )
    }

    assert.equal((await order()).status, 201)
    offsetMs = dayMs
    assert.equal((await order()).status, 201)
    await sealed()
    offsetMs = 0
    const head = await core.log.head()
    const placed = await order()
    assert.equal(placed.status, 201)
    assert.ok(Math.abs(Date.parse(placed.body.createdAt) - Date.now()) < 60_000)
    await sealed()

    const ready = await (await fetch(`${stage.baseUrl}/readyz`)).json()
    const { rows } = await core.pool.query(
      'select type, stream, metadata from log.events where position > $1 order by position',
      [head],
    )
    await core.caughtUp()
    const { findings } = await verifyLog(
      { pool: core.pool, log: core.log, groups, logInPostgres: true },
      { runId: newId('vrf'), publicKey: sealKeyOf(core.keys.seal).publicKey, exported: null },
    )
  })
})

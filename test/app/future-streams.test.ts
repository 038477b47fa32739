import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { groups } from '../../projections/groups.ts'
import { findingText } from '../../src/audit/checks/finding.ts'
import { sealKeyOf } from '../../src/audit/seals/seals-file.ts'
import { verifyLog } from '../../src/audit/verify.ts'
import { newId } from '../../src/kernel/ids.ts'
import { asOperator } from '../support/demo-env.ts'
import { operate } from '../support/operator.ts'
import { skipWithoutPostgresLog } from '../support/service-env.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'

const dayMs = 86_400_000

describe('when the clocks of the server and of Postgres were ahead for a while', {
  skip: skipWithoutPostgresLog,
}, () => {
  test('accounts that bought in that time can buy at the present time, and operators are warned', async (t) => {
    const startedMs = Date.now()
    // An offset moves the time of the service as two clocks that are both ahead do.
    const app = await testApp(t, { own: true, settings: { FAREBOX_SEAL_SECONDS: '1' }, audits: true })
    const { core } = app
    const { key, accountId } = await app.customer({ cents: 50_000 })
    const order = () =>
      app.client.post('/api/v1/orders', { product_id: 'residential-premium', quantity: 1 }, { key })
    const sealed = async () => {
      const head = await core.log.head()
      // One that was under way covers less.
      const seals = `select from log.events
                      where type = 'LogSealed' and (data::json->>'throughOrdinal')::bigint >= $1::bigint`
      await until(async () => (await core.pool.query(seals, [head])).rowCount !== 0, { what: 'a seal' })
    }
    const note = async (): Promise<string> => {
      const answer = await fetch(`${app.baseUrl}/readyz`, asOperator)
      return ((await answer.json()) as { notes: { time: string } }).notes.time
    }
    const verified = async (nowMs?: number) => {
      await core.caughtUp()
      const { findings } = await verifyLog(
        {
          pool: core.pool,
          log: core.log,
          groups,
          logInPostgres: true,
        },
        {
          runId: newId('vrf'),
          publicKey: sealKeyOf(core.keys.seal).publicKey,
          exported: null,
          ...(nowMs !== undefined && { clock: () => nowMs }),
        },
      )
      return findings.map(findingText)
    }

    assert.equal((await order()).status, 201)
    assert.equal(await note(), 'ok')
    app.ahead(dayMs)
    assert.equal((await order()).status, 201)
    await sealed()
    app.ahead(0)
    const head = await core.log.head()

    const placed = await order()
    assert.equal(placed.status, 201)
    assert.ok(Math.abs(Date.parse(placed.body.createdAt) - Date.now()) < 60_000)
    await app.credit(accountId, 100)
    assert.equal(await app.balance(key), 50_000 - 3 * placed.body.amountCents + 100)
    await sealed()
    const { rows } = await core.pool.query<{ stream: string; recorded: string; decided: string | null }>(
      `select stream, metadata::json->>'recordedAt' as recorded, metadata::json->>'decidedAt' as decided
         from log.events where position > $1 order by position`,
      [head],
    )
    const continued = rows.filter(({ decided }) => decided !== null)
    assert.ok(continued.some(({ stream }) => stream === `ledger-${accountId}`))
    assert.ok(continued.some(({ stream }) => stream === 'seal'))
    for (const { recorded, decided } of rows) {
      const times = [Date.parse(recorded) - dayMs, Date.parse(decided ?? recorded)]
      const near = times.map((atMs) => Math.abs(atMs - Date.now()) < 120_000)
      assert.deepEqual(near, [decided !== null, true])
    }

    await until(async () => /events of the future, recorded up to/.test(await note()), { what: 'the note' })
    const doctor = await operate(['doctor', '--json'], app.env)
    const { findings } = JSON.parse(doctor.out) as {
      findings: { check: string; state: string; found: string }[]
    }
    const time = findings.find(({ check }) => check === 'time of the log')
    assert.equal(time?.state, 'note')
    assert.match(time.found, /events of the future/)

    // After that time, earlier seals stay as they are: here the seal of the wrong time itself, and the key of the auditor
    // if it signed its first seal then.
    const later = await verified(Date.now() + 2 * dayMs)
    const early = later.map(
      (text) => /^times: .*, (\w+), .*, and the seal of .*, before that; /.exec(text)?.[1],
    )
    assert.deepEqual(
      new Set(['ProcessKeyIntroduced', ...early]),
      new Set(['ProcessKeyIntroduced', 'LogSealed']),
    )
    const now = await verified(Date.now())
    assert.ok(now.length > 0)
    assert.ok(
      now.every((text) => /^times: .*, and it is .* now; .*"ledger decide" acknowledges it$/.test(text)),
      now.join('\n'),
    )

    const reason = 'both clocks were a day ahead'
    const since = new Date(startedMs).toISOString()
    const decided = await operate(
      ['ledger', 'decide', '--all', '--since', since, '--reason', reason, '--json'],
      app.env,
    )
    assert.equal(JSON.parse(decided.out).count, now.length, decided.out + decided.err)
    for (const nowMs of [Date.now(), Date.now() + 2 * dayMs]) assert.deepEqual(await verified(nowMs), [])
    const { code, out, err } = await operate(['ledger', 'verify', '--max-unsealed', '1000'], app.env)
    assert.equal(code, 0, err)
    assert.match(out, new RegExp(`^acknowledged: ${now.length} events$`, 'm'))
    assert.match(out, new RegExp(`decided on .* that it stands: ${reason}$`, 'm'))
    const again = await operate(
      ['ledger', 'decide', '--all', '--since', since, '--reason', reason, '--json'],
      app.env,
    )
    assert.equal(JSON.parse(again.out).count, 0, 'each is on record once')

    const { rows: forged } = await core.pool.query<{ position: number }>(
      `select max(position) as position from log.events where stream = $1`,
      [`ledger-${accountId}`],
    )
    await core.pool.query(
      `alter table log.events disable trigger append_only;
       update log.events set metadata = (metadata::jsonb || '{"recordedAt":"2030-01-01T00:00:00.000Z"}')::text
        where position = ${forged[0]!.position};
       alter table log.events enable trigger append_only`,
    )
    const found = await verified(Date.now() + 2 * dayMs)
    assert.ok(
      found.some((text) => /says that its stream goes on at 2030-01-01T00:00:00.000Z/.test(text)),
      found.join('\n'),
    )
  })
})

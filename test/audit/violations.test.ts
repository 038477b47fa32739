import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { sealProbe } from '../../src/audit/feature.ts'
import { listSeals } from '../../src/audit/seals/seal-queries.ts'
import { newEventId } from '../../src/kernel/ids.ts'
import { asOperator } from '../support/demo-env.ts'
import { operate } from '../support/operator.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'
import {
  blocking,
  buy,
  giveMoney,
  metrics,
  ordinalOfLastOrder,
  readyz,
  restartMonitor,
  sealedThrough,
  sealing,
} from './monitored.ts'
import { allEvents, tamper } from './world.ts'

describe('a violation that a running server finds', () => {
  test('blocks its account, if a setting says so', async (t) => {
    const lines: string[] = []
    const logTo = { write: (line: string) => void lines.push(line) }
    const app = await testApp(t, { own: true, settings: blocking, logTo, audits: true })

    await t.test(
      'a valid event that no process signed stops sealing and its account, until an operator acknowledges it',
      async () => {
        const { env, farebox } = app
        const account = await app.customer({ email: 'added@example.com', cents: 50_000 })
        assert.equal(await buy(app, account.key), 201)
        await until(async () => (await readyz(app)).note === 'ok', {
          timeoutMs: 20_000,
          everyMs: 200,
          what: 'checked invariants',
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
        await until(async () => (await buy(app, account.key)) === 403, {
          timeoutMs: 20_000,
          everyMs: 200,
          what: 'a block',
        })
        const listed = await operate(['ledger', 'breaches', '--json'], env)
        assert.match(listed.out, new RegExp(`${eventId}.*signed-by-its-process.*added past the service`))
        const ordinal = (await allEvents(farebox.core.log)).findIndex(({ id }) => id === eventId) + 1
        assert.ok((await sealedThrough(app)) < ordinal, 'it is not sealed')
        assert.equal((await operate(['ledger', 'decide', eventId, '--reason', 'a test'], env)).code, 0)
        await until(async () => (await sealedThrough(app)) >= ordinal, {
          timeoutMs: 30_000,
          everyMs: 200,
          what: 'a seal',
        })
        const verified = await operate(['ledger', 'verify', '--json'], env)
        assert.match(verified.out, /no process signed it/, 'an auditor still sees it')
      },
    )

    await t.test(
      'every open violation is logged and blocks its account, however many there are',
      async (t) => {
        const { env } = app
        const since = new Date().toISOString()
        const first = await app.customer({ email: 'first@example.com', cents: 2_000 })
        const last = await app.customer({ email: 'last@example.com', cents: 2_000 })
        const forged: string[] = []
        for (let n = 0; n < 25; n += 1) forged.push(await giveMoney(app, first.accountId))
        forged.push(await giveMoney(app, last.accountId))
        await until(async () => (await buy(app, last.key)) === 403, {
          timeoutMs: 30_000,
          everyMs: 200,
          what: 'a block',
        })
        assert.equal(await buy(app, first.key), 403)
        assert.match((await readyz(app)).note, /, and \d\d more; /)
        await until(async () => forged.every((id) => lines.some((line) => line.includes(id))), {
          timeoutMs: 20_000,
          everyMs: 200,
          what: 'a line for each violation',
        })
        assert.match(await metrics(app), /^farebox_open_violations (2[6-9]|[3-9]\d)$/m)

        assert.equal((await operate(['accounts', 'unblock', last.accountId], env)).code, 0)
        await until(async () => (await buy(app, last.key)) === 201, {
          timeoutMs: 20_000,
          everyMs: 200,
          what: 'an order',
        })
        await giveMoney(app, first.accountId) // the list of open violations changes
        await restartMonitor(t, app)
        assert.equal(await buy(app, last.key), 201, 'the operator is not overruled')
        const repeated = await giveMoney(app, last.accountId)
        await until(async () => (await buy(app, last.key)) === 403, {
          timeoutMs: 20_000,
          everyMs: 200,
          what: repeated,
        })

        const misused = await operate(['ledger', 'decide', '--all', '--reason', 'x'], env)
        assert.equal(misused.code, 2)
        const why = ['--reason', 'a test', '--json']
        const later = await operate(
          ['ledger', 'decide', '--all', '--since', '2999-01-01T00:00:00Z', ...why],
          env,
        )
        assert.equal(later.code, 2, later.out)
        const decided = await operate(['ledger', 'decide', '--all', '--since', since, ...why], env)
        assert.ok(JSON.parse(decided.out).count >= 28, decided.out + decided.err)
        await until(async () => (await readyz(app)).note === 'ok', {
          timeoutMs: 20_000,
          everyMs: 200,
          what: 'no alarm',
        })
        assert.equal((await operate(['ledger', 'breaches', '--open', '--json'], env)).code, 0)
      },
    )

    await t.test('a violation whose rows are deleted immediately still blocks its account', async (t) => {
      const { pool } = app.core
      const account = await app.customer({ email: 'erased@example.com', cents: 2_000 })
      await until(() => sealedThrough(app), { what: 'the first checked events' })
      let erases = true
      const erase = async (): Promise<void> => {
        while (erases) {
          await pool.query('delete from read.violations; delete from work.unsigned_events')
          await setImmediate()
        }
      }
      const erasing = erase()
      t.after(() => {
        erases = false
        return erasing
      })
      await giveMoney(app, account.accountId)
      await until(async () => (await buy(app, account.key)) === 403, {
        timeoutMs: 30_000,
        everyMs: 200,
        what: 'a block',
      })
      await until(async () => /^farebox_open_violations [1-9]/m.test(await metrics(app)), {
        timeoutMs: 20_000,
        everyMs: 200,
        what: 'a count',
      })
      erases = false
      await erasing
    })
  })

  test('a violation can stop sealing without blocking an account', async (t) => {
    const app = await testApp(t, { own: true, settings: sealing, audits: true })
    const account = await app.customer({ email: 'alarm@example.com', cents: 2_000 })
    const eventId = await giveMoney(app, account.accountId)
    await until(async () => (await readyz(app)).note.includes(eventId), {
      timeoutMs: 20_000,
      everyMs: 200,
      what: 'the alarm',
    })
    await restartMonitor(t, app)
    assert.equal(await buy(app, account.key), 201)
    const doctor = await operate(['doctor', '--json'], app.env)
    const findings: { check: string; state: string; found: string }[] = JSON.parse(doctor.out).findings
    const states = findings.flatMap(({ check, state }) =>
      /violations|guards|queues/.test(check) ? [`${check}: ${state}`] : [],
    )
    assert.deepEqual(states, ['violations: wrong', 'guards: ok', 'queues: ok'], doctor.out)
    assert.match(findings.find(({ check }) => check === 'violations')?.found ?? '', new RegExp(eventId))
    const ordinal = (await allEvents(app.core.log)).findIndex(({ id }) => id === eventId) + 1
    assert.ok((await sealedThrough(app)) < ordinal, 'it is not sealed')
    // Any stop of the sealer is reported once the next seal is a minute late.
    const { core } = app
    const noteAfter = (ms: number) => sealProbe({ ...core, clock: () => core.clock() + ms }, 1).check()
    assert.equal(await noteAfter(0), null)
    assert.match((await noteAfter(120_000)) ?? '', /^events wait for 1\d\d s to be sealed: /)
  })

  test('by default a violation only raises the alarm, and sealing continues', async (t) => {
    const app = await testApp(t, { own: true, settings: { FAREBOX_SEAL_SECONDS: '1' }, audits: true })
    const account = await app.customer({ email: 'only@example.com', cents: 2_000 })
    const eventId = await giveMoney(app, account.accountId)
    const ordinal = (await allEvents(app.core.log)).findIndex(({ id }) => id === eventId) + 1
    await until(async () => (await sealedThrough(app)) >= ordinal, {
      timeoutMs: 20_000,
      everyMs: 200,
      what: 'a seal',
    })
    await until(async () => (await readyz(app)).note.includes(eventId), {
      timeoutMs: 20_000,
      everyMs: 200,
      what: 'the alarm',
    })
    assert.equal(await buy(app, account.key), 201)
    const byHand = await operate(['ledger', 'seal'], app.env)
    assert.equal(byHand.code, 0, `sealing by hand obeys the same setting: ${byHand.err}`)
  })

  test('by default, too, an event that no process signed is sealed only after it was acknowledged', async (t) => {
    const app = await testApp(t, { own: true, settings: { FAREBOX_SEAL_SECONDS: '1' }, audits: true })
    const { pool, log } = app.core
    const account = await app.customer({ email: 'forged@example.com', cents: 2_000 })
    const eventId = newEventId()
    await tamper(
      pool,
      [
        `insert into log.events (position, stream, revision, id, type, data, metadata)
         select h.last_position + 1, e.stream, e.revision + 1, $2, 'AccountUnblocked', '{}', e.metadata
           from log.head h, log.events e where e.stream = $1 order by e.revision desc limit 1`,
        [`account-${account.accountId}`, eventId],
      ],
      ['update log.head set last_position = last_position + 1'],
    )
    const ordinal = (await allEvents(log)).findIndex(({ id }) => id === eventId) + 1
    await until(async () => /^farebox_seal_problem 1$/m.test(await metrics(app)), {
      timeoutMs: 30_000,
      everyMs: 200,
      what: 'a sealer that reports it',
    })
    assert.ok((await sealedThrough(app)) < ordinal, 'it is not sealed')
    const byHand = await operate(['ledger', 'seal'], app.env)
    assert.equal(byHand.code, 1, 'nor by hand')
    const decided = await operate(['ledger', 'decide', eventId, '--reason', 'a test'], app.env)
    assert.equal(decided.code, 0, decided.err)
    await until(async () => (await sealedThrough(app)) >= ordinal, {
      timeoutMs: 60_000,
      everyMs: 200,
      what: 'a seal',
    })
  })

  test('a rule, trigger or deletion that hides a violation stops sealing, and a seal states how many events were checked', async (t) => {
    const app = await testApp(t, { own: true, settings: sealing, audits: true })
    const { farebox } = app
    const { pool, log } = farebox.core
    const notes = async (): Promise<string> =>
      JSON.stringify(await (await fetch(`${app.baseUrl}/readyz`, asOperator)).json())
    const account = await app.customer({ email: 'muted@example.com', cents: 50_000 })
    const sealedAll = async () => (await sealedThrough(app)) >= (await ordinalOfLastOrder(app))
    assert.equal(await buy(app, account.key), 201)
    await until(sealedAll, { timeoutMs: 20_000, everyMs: 200, what: 'a seal' })
    assert.equal(await buy(app, account.key), 201)
    await until(sealedAll, { timeoutMs: 20_000, everyMs: 200, what: 'another seal' })
    const { seals } = await listSeals(log, { limit: 2, offset: 0 })
    const [last, before] = seals
    assert.ok(last && before)
    assert.equal(last.checkedEvents, last.throughOrdinal - before.throughOrdinal)

    for (const [mute, undo, found] of [
      [
        'create rule mute as on insert to read.violations do instead nothing',
        'drop rule mute on read.violations',
        /read\.violations: expected none, found .*rule mute/,
      ],
      [
        'create rule mute as on insert to work.unsigned_events do instead nothing',
        'drop rule mute on work.unsigned_events',
        /work\.unsigned_events, rule mute/,
      ],
    ] as const) {
      await pool.query(mute)
      await until(async () => found.test(await notes()), { timeoutMs: 20_000, everyMs: 200, what: 'a note' })
      const sealed = await sealedThrough(app)
      assert.equal(await buy(app, account.key), 201)
      await until(async () => (await metrics(app)).includes('\nfarebox_seal_problem 1'), {
        timeoutMs: 20_000,
        everyMs: 200,
        what: 'an alarm',
      })
      assert.equal(await sealedThrough(app), sealed, mute)
      const byHand = await operate(['ledger', 'seal', '--json'], app.env)
      assert.deepEqual([byHand.code, JSON.parse(byHand.out).code], [1, 'guards_differ'], byHand.out)
      await pool.query(undo)
      await until(sealedAll, { timeoutMs: 30_000, everyMs: 200, what: `a seal after ${undo}` })
    }

    const forged = await giveMoney(app, account.accountId)
    await until(async () => (await readyz(app)).note.includes(forged), {
      timeoutMs: 20_000,
      everyMs: 200,
      what: 'the violation',
    })
    const sealed = await sealedThrough(app)
    await pool.query(`insert into read.audit_decided (event_id, rule, reason, decided_by, decided_at)
      select event_id, rule, 'none', 'forged', '2026-01-01' from read.violations`)
    await until(async () => /they were changed/.test((await readyz(app)).note), {
      timeoutMs: 20_000,
      everyMs: 200,
      what: 'the violation that the tables do not say',
    })
    assert.equal(await buy(app, account.key), 201)
    await until(async () => (await metrics(app)).includes('\nfarebox_seal_problem 1'), {
      timeoutMs: 20_000,
      everyMs: 200,
      what: 'an alarm',
    })
    assert.equal(await sealedThrough(app), sealed, 'what this process found is not sealed')
  })

  test('a server seals without the checks if a setting says so', async (t) => {
    const app = await testApp(t, { own: true, settings: { ...sealing, FAREBOX_LAWS: 'off' }, audits: true })
    const account = await app.customer({ email: 'gift@example.com', cents: 2_000 })
    await giveMoney(app, account.accountId)
    const events = (await allEvents(app.core.log)).length
    await until(async () => (await sealedThrough(app)) >= events, {
      timeoutMs: 20_000,
      everyMs: 200,
      what: 'a seal',
    })
    assert.equal((await readyz(app)).note, 'not looked at')
    assert.equal(await buy(app, account.key), 201)
  })
})

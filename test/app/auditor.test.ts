import assert from 'node:assert/strict'
import { test } from 'node:test'
import { invariantGroup } from '../../src/audit/invariants/invariants.ts'
import { asOperator } from '../support/demo-env.ts'
import { operate } from '../support/operator.ts'
import { testApp } from '../support/test-app.ts'

const plan = { product_id: 'residential-premium', quantity: 1 }

type Finding = { readonly check: string; readonly state: string; readonly found: string }

const auditorFinding = async (env: NodeJS.ProcessEnv): Promise<Finding> => {
  const { findings } = JSON.parse((await operate(['doctor', '--json'], env)).out) as {
    readonly findings: readonly Finding[]
  }
  return findings.find(({ check }) => check === 'auditor')!
}

test('without an auditor orders continue, and readyz, metrics and doctor say that events are not checked', async (t) => {
  const { ahead, baseUrl, buyer, core, env } = await testApp(t, { own: true })
  const answer = await buyer.post('/api/v1/orders', plan, { headers: { 'idempotency-key': 'one' } })
  assert.equal(answer.status, 201)
  // An open violation hides nothing of this.
  await core.pool.query(
    `insert into read.violations (position, event_id, event_type, stream, rule, problem)
     select position, id::text, type, stream, 'test', 'a test says so' from log.events order by position desc limit 1`,
  )
  ahead(120_000)
  const ready = await fetch(`${baseUrl}/readyz`, asOperator)
  const { notes } = (await ready.json()) as { notes: Readonly<Record<string, string>> }
  assert.equal(ready.status, 200)
  assert.match(notes.laws ?? '', / breaks test: a test says so/)
  assert.match(
    notes.invariants ?? '',
    /^events wait for \d+ s to be checked against the invariants: the auditor/,
  )
  assert.match(
    notes.signatures ?? '',
    /^events wait for \d+ s to be checked for their signatures: the auditor/,
  )
  const metrics = await (await fetch(`${baseUrl}/metrics`, asOperator)).text()
  const lag = new RegExp(
    `^farebox_projection_lag_positions{group="${invariantGroup.name}"} (\\d+)$`,
    'm',
  ).exec(metrics)
  assert.ok(Number(lag?.[1]) > 0)
  for (const gauge of ['invariants', 'signatures'])
    assert.match(metrics, new RegExp(`^farebox_${gauge}_lag_seconds 1\\d\\d`, 'm'))
  assert.equal((await auditorFinding(env)).found, 'none runs')
})

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
  const { ahead, baseUrl, buyer, env } = await testApp(t, { own: true })
  const answer = await buyer.post('/api/v1/orders', plan, { headers: { 'idempotency-key': 'one' } })
  assert.equal(answer.status, 201)
  ahead(120_000)
  const ready = await fetch(`${baseUrl}/readyz`, asOperator)
  const { notes } = (await ready.json()) as { notes: { laws: string } }
  assert.equal(ready.status, 200)
  assert.match(notes.laws, /^events wait for \d+ s to be checked: the auditor does not run, or/)
  const metrics = await (await fetch(`${baseUrl}/metrics`, asOperator)).text()
  const lag = new RegExp(
    `^farebox_projection_lag_positions{group="${invariantGroup.name}"} (\\d+)$`,
    'm',
  ).exec(metrics)
  assert.ok(Number(lag?.[1]) > 0)
  assert.equal((await auditorFinding(env)).found, 'none runs')
})

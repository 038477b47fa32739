import assert from 'node:assert/strict'
import { test } from 'node:test'
import { protocols } from '../../../src/domain/free-list/endpoint.ts'
import { faults, planProxies } from '../../../src/sandbox/free-list/plan.ts'
import { startProber, startWorld } from './world.ts'

const signal = new AbortController().signal

test('a check determines protocol, anonymity and fault of every proxy correctly', async (t) => {
  const planned = planProxies(84)
  assert.deepEqual(new Set(planned.map(({ fault }) => fault)), new Set(faults))
  // Even periods: those that flap are there.
  const nowMs = 14 * 60_000 * 2_000_000
  const running = await startWorld(t, planned, () => nowMs)
  const { prober } = await startProber(t)
  const found = await Promise.all(
    running.map(({ planned: { ip }, port }) => prober.check({ ip, port }, { timeoutMs: 3_000 }, signal)),
  )
  const differences = running.flatMap(({ planned: { id, fault, protocols: own, truth } }, at) => {
    const { latencyMs, connectMs, detail, ...rest } = found[at]!
    assert.equal(latencyMs !== null, rest.alive)
    assert.equal(connectMs !== null, fault !== 'refused')
    assert.equal(detail === null, rest.alive)
    const same =
      JSON.stringify(rest, Object.keys(rest).sort()) === JSON.stringify(truth, Object.keys(rest).sort())
    return same ? [] : [{ id, fault, own, truth, rest, detail }]
  })
  assert.deepEqual(differences, [])
  assert.equal(prober.openSockets(), 0)
  for (const protocol of protocols) assert.ok(found.some((one) => one.protocols.includes(protocol)))
})

import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { basic, talkTo } from '../../gateway/support/clients.ts'
import { startRealWorker } from '../../gateway/support/real-worker.ts'
import { tcpTarget } from '../../gateway/support/targets.ts'
import { done } from '../../support/app-actions.ts'
import { machineMs } from '../../support/machine-time.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { buyPlan, gb, meter } from './causes.ts'
import { hookTo } from './deliveries.ts'
import { startReceiver } from './receiver.ts'

const plans = 4
/** The plan's bytes above its threshold before its tunnel begins. */
const above = 300_000
const chunk = Buffer.alloc(20_000, 'x')

/**
 * The promise is two seconds; a machine that runs other tests at the same time may need as much again for
 * each of them.
 */
const promisedMs = 2_000
const toleratedMs = 3 * promisedMs

test('plan.low_traffic arrives within two seconds of the byte that crosses the threshold', async (t) => {
  const app = await testApp(t)
  const { client } = app
  const receiver = await startReceiver(t)
  const worker = await startRealWorker(t, app)
  /** Sends until its client has got enough. */
  const target = await tcpTarget(t, (socket: Socket) => {
    const timer = setInterval(() => socket.write(chunk), 20)
    socket.once('close', () => clearInterval(timer))
  })

  /**
   * Downloads past the threshold of a plan and stops.
   * @returns when the crossing byte arrived
   */
  const cross = async (planId: string, key: string): Promise<number> => {
    const { connection } = (await done(client.get(`/api/v1/plans/${planId}`, { key }))).body
    const talk = await talkTo(worker.port)
    const authorization = basic(connection.username, connection.password)
    talk.write(`CONNECT 127.0.0.1:${target} HTTP/1.1\r\nProxy-Authorization: ${authorization}\r\n\r\n`)
    assert.match(await talk.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
    await talk.exactly(above)
    const crossedAtMs = machineMs()
    await talk.exactly(3 * chunk.length)
    talk.socket.destroy()
    return crossedAtMs
  }

  const measured: number[] = []
  for (let n = 0; n < plans; n += 1) {
    // A second order of the same customer would top the first plan up.
    const customer = await app.customer({ cents: 100_000 })
    await hookTo(app, receiver.url, ['plan.low_traffic'], customer)
    const { planId } = await buyPlan(app, customer)
    await meter(app, planId, 0.9 * gb - above)
    const crossedAtMs = await cross(planId, customer.key)
    const { json } = await until(() => receiver.received.find(({ json }) => json.data.planId === planId), {
      what: `plan.low_traffic of ${planId}`,
    })
    const tookMs = Math.round(machineMs() - crossedAtMs)
    measured.push(tookMs)
    assert.ok(tookMs < toleratedMs, `it took ${tookMs} ms`)
    assert.equal(json.data.thresholdPct, 10)
  }
  t.diagnostic(`from the crossing byte to the receiver: ${measured.join(', ')} ms`)
  const median = measured.toSorted((a, b) => a - b)[Math.floor(plans / 2)] ?? 0
  assert.ok(median < 1.5 * promisedMs, `the median is ${median} ms`)
})

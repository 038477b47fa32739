import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { basic, talkTo } from '../gateway/support/clients.ts'
import { startRealWorker, whoami } from '../gateway/support/real-worker.ts'
import { echoTarget } from '../gateway/support/targets.ts'
import { testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'
import { filesOnPath } from './paths.ts'

/** Work of the gateway's process and of the service that does not belong to a connection. */
const background = [
  // The time of Postgres.
  'src/app/clock.ts',
  // Announcements and connections of Postgres.
  'src/platform/eventstore/',
  'src/platform/postgres/client.ts',
  // Rounds, twice a second: consumed bytes, plans of open tunnels, rented addresses.
  'src/features/plans/traffic-counters.ts',
  'src/gateway/authenticate/plan-directory.ts',
  'src/gateway/rental-listeners.ts',
  'src/gateway/metrics.ts',
]

test('a CONNECT tunnel of a paid plan has at most 30 files on its path, from the accept to the close', async (t) => {
  const app = await testApp(t, {
    own: true,
    settings: { FAREBOX_GATEWAY_ALLOW_LOOPBACK: 'on' },
    roles: ['http', 'projections'],
  })
  const { port } = await startRealWorker(t, app)
  const { buyer } = app
  const { body: order } = await buyer.post('/api/v1/orders', {
    product_id: 'residential-premium',
    quantity: 1,
  })
  const { body: plan } = await buyer.get(`/api/v1/plans/${order.planId}`)
  const { username, password } = plan.connection
  await until(() => whoami(`http://${username}:${password}@127.0.0.1:${port}`), { what: 'the exits' })
  const target = await echoTarget(t)
  const tunnel = async (): Promise<void> => {
    const talk = await talkTo(port)
    talk.write(
      `CONNECT 127.0.0.1:${target} HTTP/1.1\r\nProxy-Authorization: ${basic(username, password)}\r\n\r\n`,
    )
    assert.match(await talk.until('\r\n\r\n'), /^HTTP\/1\.1 200 /)
    talk.write('hello')
    assert.equal((await talk.exactly(5)).toString(), 'hello')
    talk.socket.end()
    await once(talk.socket, 'close')
  }
  await tunnel()
  // Rounds of background work run beside some of the tunnels. The shortest path is that of a tunnel alone.
  let path = await filesOnPath(tunnel, background)
  for (let n = 0; n < 100 && path.length > 30; n += 1) {
    const other = await filesOnPath(tunnel, background)
    if (other.length < path.length) path = other
  }
  assert.ok(path.length <= 30, `${path.length} files are on the path:\n${path.join('\n')}`)
})

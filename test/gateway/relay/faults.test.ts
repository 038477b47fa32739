import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createAbortHandlers } from '../../../src/gateway/admit/open-tunnels.ts'
import { noMetrics, type ProxyMetrics } from '../../../src/gateway/gateway-ports.ts'
import { until } from '../../support/until.ts'
import { authorization, connectBy, socksTo, type Talk, talkTo } from '../support/clients.ts'
import { startGateway, type TestOptions } from '../support/gateway.ts'
import { exhausted } from '../support/memory-ports.ts'
import { httpTarget, tcpTarget } from '../support/targets.ts'

/** How a connection ended that was open. */
const endOf = (talk: Talk): Promise<'end' | 'reset'> =>
  talk.rest().then(
    () => 'end' as const,
    () => 'reset' as const,
  )

const secret = 's3cret-of-a-client'

/** A gateway in which an armed fault throws; its message quotes a client. */
const faulty = async (t: TestContext, wire: (trip: () => void) => TestOptions = () => ({})) => {
  let armed = false
  const faults: number[] = []
  const trip = (): void => {
    if (armed) throw new RangeError(`cannot read ${secret}`)
  }
  const { metrics, ...options } = wire(trip)
  const gateway = await startGateway(t, {
    ...options,
    metrics: { ...noMetrics, ...metrics, faulted: () => faults.push(1) },
  })
  const echo = await tcpTarget(t, (socket) => socket.pipe(socket))
  const { port: http } = await httpTarget(t, (_, response) => void response.end('hello'))
  return {
    ...gateway,
    trip,
    echo: `127.0.0.1:${echo}`,
    http: `http://127.0.0.1:${http}/`,
    arm: () => {
      armed = true
    },
    /**
     * Every open connection has ended, one fault was logged without the client's data, and the next client is
     * served.
     */
    isContained: async (): Promise<void> => {
      const { access, lines } = gateway
      await until(() => access.open === 0, { timeoutMs: 3_000, what: 'the end of what was let in' })
      await until(() => gateway.exits.open === 0, { timeoutMs: 3_000, what: 'the end of the way' })
      armed = false
      const faultLines = lines.filter((line) => line.startsWith('a fault of the gateway'))
      assert.deepEqual([faultLines.length, faults.length], [1, 1], lines.join('\n'))
      assert.match(faultLines[0]!, /"fault":"RangeError".*faults\.test\.ts/)
      assert.ok(!lines.join('\n').includes(secret))
      const next = await connectBy(gateway.port, `127.0.0.1:${echo}`)
      next.write('next')
      assert.equal(String(await next.exactly(4)), 'next')
      next.socket.destroy()
    },
  }
}

const passing = (trip: () => void): { metrics: ProxyMetrics } => ({
  metrics: { ...noMetrics, countBytes: trip },
})

test("an exception in a tunnel's relay ends that tunnel, and every other one continues", async (t) => {
  const gateway = await faulty(t, passing)
  const other = await connectBy(gateway.port, gateway.echo)
  const { talk } = await socksTo(gateway.port, '127.0.0.1', Number(gateway.echo.split(':')[1]))
  gateway.arm()
  talk.write('boom')
  await endOf(talk)
  assert.equal(other.socket.destroyed, false)
  other.socket.destroy()
  await gateway.isContained()
})

test('an exception in the relay of a plain answer resets its client', async (t) => {
  const gateway = await faulty(t, passing)
  const talk = await talkTo(gateway.port)
  gateway.arm()
  talk.write(`GET ${gateway.http} HTTP/1.1\r\nHost: ${new URL(gateway.http).host}\r\n${authorization}\r\n`)
  assert.equal(await endOf(talk), 'reset', 'a part is not taken for the whole')
  await gateway.isContained()
})

for (const protocol of ['connect', 'http', 'socks5'] as const)
  test(`an exception while dialling for a waiting client of ${protocol} ends only that client`, async (t) => {
    const gateway = await faulty(t, (trip) => ({ metrics: { ...noMetrics, dialled: trip } }))
    gateway.arm()
    if (protocol === 'socks5')
      await assert.rejects(socksTo(gateway.port, '127.0.0.1', Number(gateway.echo.split(':')[1])))
    else {
      const talk = await talkTo(gateway.port)
      const target = protocol === 'http' ? `GET ${gateway.http}` : `CONNECT ${gateway.echo}`
      talk.write(
        `${target} HTTP/1.1\r\nHost: ${protocol === 'http' ? new URL(gateway.http).host : gateway.echo}\r\n${authorization}\r\n`,
      )
      await endOf(talk)
    }
    await gateway.isContained()
  })

test('an exception in a time limit ends only its connection', async (t) => {
  const gateway = await faulty(t, (trip) => ({
    limits: { headMs: 100 },
    metrics: { ...noMetrics, refused: trip },
  }))
  gateway.arm()
  const talk = await talkTo(gateway.port)
  talk.write('GET ')
  await endOf(talk)
  await gateway.isContained()
})

test("an exception in one of the cuts of a plan's tunnels does not stop the others", async () => {
  const faults: unknown[] = []
  const cuts = createAbortHandlers((error) => faults.push(error))
  const ended = new AbortController()
  const cut: string[] = []
  cuts.on(ended.signal, () => {
    throw new Error('the first one')
  })
  cuts.on(ended.signal, ({ error }) => cut.push(error))
  ended.abort(exhausted)
  assert.deepEqual([cut, faults.length], [['traffic_exhausted'], 1])
})

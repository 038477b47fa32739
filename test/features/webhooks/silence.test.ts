import assert from 'node:assert/strict'
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'node:test'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { buyPlan, caughtUp, enqueued, nowhere } from './causes.ts'
import { hookTo, startReactor } from './deliveries.ts'

test('when the enqueuing process hangs, another one continues, and the first stops when it runs again', async (t) => {
  const app = await testApp(t, { own: true, roles: ['http', 'projections'] })
  const customer = await app.customer({ cents: 100_000 })
  await hookTo(app, nowhere, ['order.fulfilled'], customer)
  const { postgresUrl } = app.core
  const stopped: ChildProcess = fork(join(import.meta.dirname, 'reactor-process.ts'), [postgresUrl, '2000'])
  t.after(async () => {
    stopped.kill('SIGKILL')
    await once(stopped, 'exit')
  })
  const said: unknown[] = []
  stopped.on('message', (word) => said.push(word))
  const bought = [await buyPlan(app, customer)]
  await until(() => said.includes('enqueued'), { what: 'the enqueuer of another process' })

  startReactor(t, app)
  stopped.kill('SIGSTOP')
  bought.push(await buyPlan(app, customer))
  await caughtUp(app)
  said.length = 0
  stopped.kill('SIGCONT')
  await until(() => said.includes('failed'), { what: 'that its session is gone' })
  bought.push(await buyPlan(app, customer))
  await caughtUp(app)
  const resources = (await enqueued(app)).map(({ resource }) => resource)
  assert.deepEqual(resources.sort(), bought.map(({ orderId }) => orderId).sort())
  assert.ok(!said.includes('enqueued'), 'it enqueued nothing more')
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startRealWorker } from '../gateway/support/real-worker.ts'
import { ownPort } from '../support/own-port.ts'
import { blocksOf, pageOf, pageShell } from '../support/page-shell.ts'
import { testApp } from '../support/test-app.ts'

test('the tour has commands that run as printed, and every curl line returns the printed answer', async (t) => {
  const [customers = '', operators = '', finance = '', ...more] = blocksOf(pageOf('docs/tour.md'))
  assert.deepEqual(more, [])
  const settings = { FAREBOX_GATEWAY_PORT: String(await ownPort()) }
  const app = await testApp(t, { own: true, audits: true, settings })
  await startRealWorker(t, app, settings)
  const shell = await pageShell(t, app)
  const runBlock = async (block: string): Promise<string> => {
    const { stdout } = await shell(block)
    assert.doesNotMatch(stdout, /"code":/)
    return stdout
  }
  // The block of finance uses the variables of the first one.
  const variables = customers.split('\n').slice(0, 2).join('\n')
  const bought = await runBlock(customers)
  assert.match(bought, /"status":"completed"[\s\S]*"amountCents":560/)
  assert.match(bought, /"credited_cents":2500|"status":"(paid|processing|awaiting_payment)"/)
  await runBlock(operators)
  assert.match(await runBlock(`${variables}\n${finance}`), /nothing is wrong[\s\S]*nothing is wrong/)
})

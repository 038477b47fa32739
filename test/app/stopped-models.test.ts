import assert from 'node:assert/strict'
import { test } from 'node:test'
import { groups } from '../../projections/groups.ts'
import { addresses } from '../support/app-actions.ts'
import { httpClient } from '../support/http.ts'
import { withStoppedModel } from '../support/stopped-model.ts'
import { type OwnApp, secondClient, testApp } from '../support/test-app.ts'

/** Every GET of the API without a parameter in its path, and the status of its answer or the text of a 503. */
const answersOf = async (app: OwnApp): Promise<Readonly<Record<string, string>>> => {
  const client = httpClient(app.baseUrl, app.document, app.demo.reseller.key)
  const paths = Object.entries(app.document.paths).flatMap(([path, { get }]) =>
    get && !path.includes('{') && path.startsWith('/api/') ? [path] : [],
  )
  const answers: Record<string, string> = {}
  for (const path of paths) {
    const { status, body } = await client.get(path)
    answers[path] = status === 503 ? body.error : String(status)
  }
  return answers
}

test('every model of a group with several is stopped alone: what does not need it answers as before', async (t) => {
  const app = await testApp(t, { own: true })
  const before = await answersOf(app)
  assert.ok(Object.keys(before).length > 20)
  const needing = new Map<string, readonly string[]>()
  for (const model of groups.filter(({ models }) => models.length > 1).flatMap(({ models }) => models))
    await withStoppedModel(t, app, model, async () => {
      const error = `the read model ${model.name} is stopped, and this request needs it; try again later`
      const answers = await answersOf(app)
      const changed = Object.keys(before).filter((path) => answers[path] !== before[path])
      for (const path of changed) assert.equal(answers[path], error, path)
      const ordered = await app.buyer.post('/api/v1/orders', addresses(1))
      if (ordered.status !== 201) assert.equal(ordered.body.error, error)
      // Another server can start.
      const another = await secondClient(t, app)
      assert.equal((await another.get('/api/v1/me')).status, 401)
      needing.set(model.name, ordered.status === 201 ? changed : [...changed, 'orders'])
    })
  assert.deepEqual(await answersOf(app), before)
  const needed = (path: string) =>
    [...needing].filter(([, paths]) => paths.includes(path)).map(([name]) => name)
  assert.deepEqual(needed('/api/v1/wallet'), ['balances'])
  assert.deepEqual(needed('/api/v1/plans'), ['orders', 'plans', 'low-traffic'])
  // Prices, keys and stock of an order are read from the log.
  assert.deepEqual(needed('orders'), [])
  await app.verified()
})

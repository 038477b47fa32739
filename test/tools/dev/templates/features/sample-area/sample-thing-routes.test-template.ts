import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testApp } from '../../../../../support/test-app.ts'

const path = '/api/v1/sample-thing'

test('an account sets its sample thing and reads it at once', async (t) => {
  const app = await testApp(t)
  const { key } = await app.customer({ cents: 0 })
  const other = await app.customer({ cents: 0 })
  const set = (value: string) => app.client.call('PATCH', path, { key, json: { value } })
  const read = async (of = key) => (await app.client.get(path, { key: of })).body

  assert.deepEqual(await read(), { value: null })
  assert.equal((await set('one')).status, 200)
  assert.deepEqual(await read(), { value: 'one' })
  const blank = await set(' ')
  assert.deepEqual([blank.status, blank.body.code], [400, 'invalid_body'])
  assert.deepEqual(await read(), { value: 'one' })
  assert.deepEqual(await read(other.key), { value: null }, 'it belongs to one account')
})

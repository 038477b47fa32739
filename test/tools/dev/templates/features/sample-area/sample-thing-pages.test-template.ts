import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hiddenField, signedIn } from '../../../../../support/console.ts'
import { testApp } from '../../../../../support/test-app.ts'

const path = '/console/sample-thing'

test('the page shows the sample thing of the account and sets it', async (t) => {
  const app = await testApp(t)
  const { accountId } = await app.customer({ cents: 0 })
  const browser = await signedIn(app, accountId)
  const send = async (value: string) =>
    browser.post(path, { form: hiddenField(await browser.get(path), 'form'), value })

  const set = await send('one')
  assert.deepEqual([set.status, set.to], [303, path])
  assert.match((await browser.get(path)).html, /name="value"[^>]* value="one"/)
  const blank = await send('')
  assert.equal(blank.status, 400)
  assert.match(blank.html, /Type 1 to \d+ characters\./)
  assert.match((await browser.get(path)).html, /name="value"[^>]* value="one"/)
})

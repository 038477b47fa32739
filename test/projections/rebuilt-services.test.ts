import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { groups } from '../../projections/groups.ts'
import { rebuild } from '../../src/platform/projections/rebuild.ts'
import { done } from '../support/app-actions.ts'
import { operate } from '../support/operator.ts'
import { secondClient, testApp } from '../support/test-app.ts'
import { until } from '../support/until.ts'

test('data from wrong rows is answered by no process after the rebuild', async (t) => {
  const app = await testApp(t, { own: true, roles: ['http', 'projections'], with: ['financeToken'] })
  const { core } = app
  const { pool, log } = core
  const { key, accountId } = await app.customer({ cents: 1_000, reseller: true })
  const discount = ['reseller', 'set', '--account', accountId, '--discount', '10']
  assert.equal((await operate(discount, app.env)).code, 0)
  const questions = [
    ['/api/v1/reseller/statement?limit=', key, 'lines'],
    ['/api/v1/reseller/margins?limit=', key, 'margins'],
    ['/finance/v1/trial-balance?limit=', app.financeToken, 'accounts'],
    ['/api/v1/wallet/transactions?limit=', key, 'transactions'],
    ['/api/v1/products/residential-premium/price?quantity=5', key, 'yourCostCents'],
    ['/api/v1/products/residential-premium', key, 'name'],
  ] as const
  const ask = async (client: typeof app.client, limit: number) => {
    const answers: Record<string, unknown> = {}
    for (const [path, key, field] of questions) {
      const { body } = await done(client.get(path.endsWith('=') ? `${path}${limit}` : path, { key }))
      assert.ok(field in body, field)
      answers[path] = body[field]
    }
    return answers
  }
  // Terms show on a process some moments after the command.
  await until(
    async () => (await ask(app.client, 51))['/api/v1/products/residential-premium/price?quantity=5'] === 2475,
  )
  const truth = await ask(app.client, 51)
  const rightOnes = (answers: typeof truth) =>
    questions.filter(([path]) => isDeepStrictEqual(answers[path], truth[path]))

  // Changed behind the log.
  await pool.query(
    `insert into read.margin_lines select 'ord_none', 'sale', account_id, at, position, 'none', 'ord_none', 'cus_none',
       'isp-static', 1, 70000, 50000 from read.journal_entries where account_id = '${accountId}' limit 1;
     insert into read.margin_sums select reseller_id, 'day', 'day', to_char(at, 'YYYY-MM-DD'), to_char(at, 'YYYY-MM-DD'),
       1, 70000, 50000 from read.margin_lines;
     update read.journal_postings set amount_micros = 2 * amount_micros;
     update read.transactions set amount_micros = 2 * amount_micros;
     update read.reseller_terms set terms = terms || '{"discountBp": 5000}', position = position + 1;
     update read.catalog
        set products = (select jsonb_agg(product || '{"name": "Wrong"}') from jsonb_array_elements(products) product)`,
  )
  const clients = [app.client, await secondClient(t, app)]
  // Catalogue and terms come from the log, and all else is wrong.
  for (const client of clients) await until(async () => rightOnes(await ask(client, 50)).length === 2)

  const head = await log.head()
  await rebuild({ pool, log, decode: core.codec.decode, groups }, 'all')
  for (const client of clients)
    await until(async () => rightOnes(await ask(client, 50)).length === questions.length)
  assert.equal(await log.head(), head, 'no appended event reported a change')
})

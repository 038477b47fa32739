import assert from 'node:assert/strict'
import { test } from 'node:test'
import { groups } from '../../../projections/groups.ts'
import { rebuild } from '../../../src/platform/projections/rebuild.ts'
import { type Customer, done } from '../../support/app-actions.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { buyPlan, gb } from '../webhooks/causes.ts'
import { storeUse } from './use.ts'

type Letter = { readonly to: readonly string[]; readonly subject: string; readonly text: string }

/** The e-mails to an address, when the mail of each reached part was sent and there are `count` of them. */
const lettersTo = (app: TestApp, { email }: Customer, count: number): Promise<readonly Letter[]> =>
  until(
    async () => {
      const { rows } = await app.core.pool.query(
        `select from read.traffic_budgets_reached r left join work.traffic_budget_mails m using (reached_id)
          where m.status is distinct from 'done'`,
      )
      const answer = await fetch(`${app.demo.sandbox}/_sandbox/mail`)
      const { letters } = (await answer.json()) as { letters: readonly Letter[] }
      const found = letters.filter(({ to }) => to.includes(email))
      return rows.length === 0 && found.length >= count ? found : null
    },
    { timeoutMs: 60_000, what: `${count} e-mails` },
  )

test('an account gets one e-mail at 80 and one at 100 % of a traffic budget, also after a rebuild', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const { client, core } = app
  const customer = await app.customer({ cents: 100_000 })
  const { planId } = await buyPlan(app, customer)
  const json = { planId, period: 'month', limitBytes: 5 * gb }
  const { body: budget } = await done(
    client.call('PUT', '/api/v1/traffic-budgets', { key: customer.key, json }),
  )
  const use = (usedBytes: number, limitBytes = 5 * gb) =>
    storeUse(core.pool, {
      budgetId: budget.id,
      countedFromMs: Date.parse(budget.countedFrom),
      usedBytes,
      limitBytes,
    })
  await use(4.2 * gb)
  const [first] = await lettersTo(app, customer, 1)
  assert.match(first!.subject, /^80 % of a traffic budget used at /)
  assert.ok(
    first!.text.startsWith(
      `4.20 GB of 5 GB are used of the traffic budget per month for the plan ${planId}.`,
    ),
    first!.text,
  )
  assert.ok(first!.text.includes(`/console/traffic-budgets/${budget.id}`), first!.text)

  await use(5 * gb)
  const both = await lettersTo(app, customer, 2)
  const second = both.find(({ subject }) => subject.startsWith('100 % of a traffic budget used at '))
  assert.ok(second?.text.includes(`until ${budget.resetsAt.slice(0, 10)} 00:00 UTC`), second?.text)

  await rebuild({ pool: core.pool, log: core.log, decode: core.codec.decode, groups }, 'all')
  await done(
    client.call('PUT', '/api/v1/traffic-budgets', {
      key: customer.key,
      json: { ...json, limitBytes: 6 * gb },
    }),
  )
  await use(4.9 * gb, 6 * gb)
  const letters = await lettersTo(app, customer, 3)
  assert.deepEqual(letters.map(({ subject }) => subject.split(' ')[0]).sort(), ['100', '80', '80'])
})

test('a row that no event causes sends no e-mail', async (t) => {
  const app = await testApp(t, { own: 'file' })
  const customer = await app.customer({ cents: 0 })
  const { pool } = app.core
  await pool.query(
    `insert into work.traffic_budget_mails (reached_id, account_id, position, lineage, due_at)
     values ('tbg_1.1', $1, 1, gen_random_uuid(), now())`,
    [customer.accountId],
  )
  const { result } = await until(
    async () =>
      (
        await pool.query(
          "select result from work.traffic_budget_mails where reached_id = 'tbg_1.1' and status = 'done'",
        )
      ).rows[0],
    { timeoutMs: 30_000, what: 'the row' },
  )
  assert.equal(result, 'no event causes it')
})

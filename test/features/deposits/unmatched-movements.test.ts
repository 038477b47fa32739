import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hiddenField, staffBrowser } from '../../support/console.ts'
import { limitAlone } from '../../support/four-eyes.ts'
import { commandLineOf, operate } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

test('a refund or a dispute without a known deposit stays open until an operator resolves it', async (t) => {
  const app = await testApp(t, { own: true })
  const { core } = app
  await limitAlone(core.log, 1_000)
  const alice = commandLineOf(app.farebox, { kind: 'operator', name: 'alice' })
  const bob = commandLineOf(app.farebox, { kind: 'operator', name: 'bob' })
  /** A paid deposit that Stripe then knows by the name of another shop's sale. */
  const paid = async () => {
    const account = await app.customer({ cents: 0 })
    const { deposit_id: id } = await app.openDeposit(account.key, { amount_cents: 2_500, method: 'card' })
    await app.act(id, 'pay', 2_500)
    await app.untilBalance(account.key, 2_500)
    await core.pool.query(
      `update work.sandbox_records set body = body || '{"reference": "sale_4711"}' where body ->> 'reference' = $1`,
      [id],
    )
    return { ...account, id: id as string }
  }
  const openItems = (count: number) =>
    until(async () => {
      const { items } = (await alice('deposits', 'unmatched')).json
      return items.length === count && items
    })
  const resolve = (item: string, ...more: readonly string[]) => alice('deposits', 'resolve', item, ...more)
  const { id, key, accountId } = await paid()

  await t.test('each movement once, and no wallet changes', async () => {
    await app.act(id, 'refund', 700)
    const [item] = await openItems(1)
    assert.deepEqual([item.reason, item.amount, item.gateway], ['deposit_refund', '-7.00 usd', 'stripe'])
    await app.act(id, 'fail-refund')
    const items = await openItems(2)
    assert.deepEqual(items.map(({ amount }: { amount: string }) => amount).sort(), ['-7.00 usd', '7.00 usd'])
    assert.equal(await app.balance(key), 2_500)
  })

  await t.test('one is booked and closed in one step, another is closed with a reason', async () => {
    const items = await openItems(2)
    const of = (amount: string) => items.find((item: { amount: string }) => item.amount === amount).itemId
    const taken = of('-7.00 usd')
    const booked = await resolve(taken, '--reason', 'ours', '--account', accountId)
    assert.deepEqual([booked.code, booked.json.outcome], [0, 'resolved'], booked.err)
    assert.equal(await app.balance(key), 1_800)
    const again = await resolve(taken, '--reason', 'ours', '--account', accountId)
    assert.deepEqual([again.json.code, again.json.accountId], ['resolved_before', accountId])
    const other = await resolve(taken, '--reason', 'ours', '--account', app.demo.buyer.accountId)
    assert.equal(other.json.code, 'resolved_before')
    const none = `acc_${'0'.repeat(32)}`
    const returned = of('7.00 usd')
    assert.equal((await resolve(returned, '--reason', 'x', '--account', none)).json.code, 'not_found')
    assert.equal((await resolve(returned, '--reason', 'sale of another shop')).code, 0)
    assert.equal((await resolve(`umv_${'0'.repeat(32)}`, '--reason', 'x')).json.code, 'not_found')
    await openItems(0)
    assert.equal(await app.balance(key), 1_800)
  })

  await t.test('above the limit of one operator, the approval books and closes it', async () => {
    await app.act(id, 'dispute')
    const [item] = await openItems(1)
    const proposed = await resolve(item.itemId, '--reason', 'ours', '--account', accountId)
    assert.equal(proposed.json.code, 'approval_needed', proposed.err)
    await openItems(1)
    const approved = await bob('proposals', 'approve', proposed.json.proposalId)
    assert.deepEqual([approved.code, approved.json.accountId], [0, accountId], approved.err)
    await openItems(0)
    assert.equal(await app.balance(key), 0)
    const { items } = (await alice('deposits', 'unmatched', '--all')).json
    const closed = items.find(({ itemId }: { itemId: string }) => itemId === item.itemId)
    assert.deepEqual([closed.accountId, closed.note], [accountId, `approved as ${proposed.json.proposalId}`])
  })

  await t.test('in the console', async () => {
    const other = await paid()
    await app.act(other.id, 'refund', 300)
    const [item] = await openItems(1)
    const operator = await staffBrowser(app, ['operator'])
    assert.match((await operator.get('/console/staff')).html, /1 movement at payment providers to resolve/)
    assert.match((await operator.get('/console/operator/unmatched')).html, /-3\.00 usd/)
    const path = `/console/operator/unmatched/${item.itemId}`
    const form = async () => hiddenField(await operator.get(path), 'form')
    assert.match((await operator.get(path)).html, /<button class="danger">Resolve -3\.00 usd<\/button>/)
    assert.equal((await operator.post(path, { form: await form(), reason: '' })).status, 400)
    assert.equal((await operator.post(path, { form: await form(), reason: 'x', account: 'y' })).status, 400)
    const fields = { form: await form(), reason: 'ours', account: other.accountId }
    assert.equal((await operator.post(path, fields)).to, '/console/operator/unmatched')
    await openItems(0)
    assert.equal(await app.balance(other.key), 2_200)
    assert.match((await operator.get('/console/operator/unmatched?show=all')).html, /sale of another shop/)
  })

  await t.test('the log passes verification', async () => {
    for (const command of ['seal', 'verify']) {
      const ran = await operate(['ledger', command], app.env)
      assert.equal(ran.code, 0, `${ran.out}${ran.err}`)
    }
  })
})

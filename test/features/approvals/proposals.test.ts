import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addresses } from '../../support/app-actions.ts'
import { limitAlone } from '../../support/four-eyes.ts'
import { commandLineOf } from '../../support/operator.ts'
import { testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'

test('on the command line one operator proposes large credits and refunds and another approves them', async (t) => {
  const app = await testApp(t, { own: true })
  const { core } = app
  await limitAlone(core.log, 100)
  const alice = commandLineOf(app.farebox, { kind: 'operator', name: 'alice' })
  const bob = commandLineOf(app.farebox, { kind: 'operator', name: 'bob' })
  const { accountId } = app.demo.buyer
  const credit = (cents: number, reference: string) =>
    alice(
      ...['wallet', 'credit', '--kind=payment', '--account', accountId],
      ...['--cents', `${cents}`, '--reference', reference],
    )
  const balance = async () =>
    (await app.client.get('/api/v1/wallet', { key: app.demo.buyer.key })).body.balanceCents
  const before = await balance()

  assert.equal((await credit(100, 'small')).code, 0)
  const proposed = await credit(101, 'large')
  assert.deepEqual([proposed.code, proposed.json.code], [1, 'approval_needed'])
  const { proposalId } = proposed.json
  assert.equal((await credit(101, 'large')).json.proposalId, proposalId)
  assert.equal((await credit(102, 'large')).json.code, 'other_proposed')
  assert.equal(await balance(), before + 100)

  const listed = await until(
    async () => {
      const { json } = await bob('proposals', 'list')
      return json?.proposals?.length === 1 && json.proposals[0]
    },
    { timeoutMs: 20_000, what: 'the proposal in the read tables' },
  )
  assert.equal(listed.proposalId, proposalId)
  assert.deepEqual(
    [listed.status, listed.proposedBy, listed.accountId, listed.what.amountMicros],
    ['open', 'operator:alice', accountId, 1_010_000],
  )
  assert.equal((await alice('proposals', 'approve', proposalId)).json.code, 'own_proposal')
  assert.equal((await bob('proposals', 'withdraw', proposalId)).json.code, 'not_own_proposal')
  const approved = await bob('proposals', 'approve', proposalId)
  assert.deepEqual([approved.code, approved.json.amountCents], [0, 101])
  assert.equal((await bob('proposals', 'approve', proposalId)).json.code, 'already_applied')
  assert.equal(await balance(), before + 201)

  const declined = (await credit(150, 'no receipt')).json.proposalId
  assert.equal((await bob('proposals', 'decline', declined, '--note', 'no receipt')).code, 0)
  const again = await credit(150, 'no receipt')
  assert.equal(again.json.code, 'proposal_declined')
  assert.match(again.json.error, /operator:bob declined it as prp_\S+ \("no receipt"\)/)

  const order = await app.resellerOf(app.demo.reseller).order(null, addresses(1))
  assert.equal(order.status, 201, JSON.stringify(order.body))
  const { orderId } = order.body
  const refund = (...more: readonly string[]) => alice('orders', 'refund', '--order', orderId, ...more)
  assert.match((await refund()).json.error, /give a reference/)
  const waits = await refund('--reference', 'ticket 1')
  assert.equal(waits.json.code, 'approval_needed', waits.err)
  // The proposed amount is no longer the remaining one: a new proposal is needed.
  assert.equal((await refund('--reference', 'ticket 2', '--cents', '100')).code, 0)
  const outdated = await bob('proposals', 'approve', waits.json.proposalId)
  assert.equal(outdated.json.code, 'proposal_outdated')
  assert.equal((await bob('proposals', 'decline', waits.json.proposalId, '--note', 'again')).code, 0)
  const second = await refund('--reference', 'ticket 1')
  assert.deepEqual([second.json.code, second.json.proposalId], ['approval_needed', waits.json.proposalId])
  const done = await bob('proposals', 'approve', second.json.proposalId)
  assert.deepEqual([done.code, done.json.refundCents], [0, order.body.amountCents - 100])
  assert.equal((await bob('proposals', 'show', second.json.proposalId)).code, 0)

  const off = await alice('four-eyes', 'set', 'off')
  assert.equal(off.json.code, 'approval_needed')
  assert.equal((await bob('proposals', 'approve', off.json.proposalId)).code, 0)
  const { limitCents, next } = (await alice('four-eyes', 'show')).json
  assert.deepEqual([limitCents, next.limitCents], [100, null])
  await app.verified()
})

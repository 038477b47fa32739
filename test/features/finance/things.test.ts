import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exportLedger } from '../../../src/features/exports/export-log.ts'
import type { Format } from '../../../src/features/exports/journal-formats.ts'
import { resourceKind } from '../../../src/features/finance/input-forms.ts'
import { utcCalendar } from '../../../src/kernel/calendar.ts'
import { parsePosition } from '../../../src/kernel/log-position.ts'
import { decode } from '../../../src/platform/eventstore/codec.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { playBusiness } from '../../audit/business.ts'
import { allEvents } from '../../audit/world.ts'
import type { TestApp } from '../../support/test-app.ts'

/** Streams of things by what their ids begin with: of their own, or shared by many. */
const home: Readonly<Record<string, string>> = {
  ord: 'order',
  dep: 'deposit',
  sub: 'subscription',
  pln: 'plan',
  ntc: 'notice',
  prx: 'stock',
  ref: 'order',
  crd: 'terms',
  whs: 'webhooks',
  key: 'account',
}
const shared = new Set(['prx', 'ref', 'crd', 'whs', 'key'])

/** The ids of things that an event names, in its data only. */
const idsIn = (value: unknown): readonly string[] => {
  if (typeof value === 'string') return resourceKind(value) !== null ? [value] : []
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(idsIn) : []
}

/** The books name the gateways of the resellers by reference, provider and rail. */
const gatewaysAreNamed = async (cli: TestApp['cli'], log: EventLog): Promise<void> => {
  const { accounts } = (await cli('ledger', 'trial-balance')).json
  type Account = { readonly book: string; readonly account: string; readonly gateway: string | null }
  const own = (accounts as readonly Account[]).filter(({ account }) =>
    account.startsWith('assets:gateway:crd_'),
  )
  assert.deepEqual(
    own.map(({ gateway }) => gateway),
    ['stripe card'],
  )
  for (const { account, gateway } of accounts)
    if (!account.startsWith('assets:gateway:crd_')) assert.equal(gateway, null, account)
  const [{ account, book } = assert.fail('no reseller has a gateway')] = own
  const reference = account.slice(account.lastIndexOf(':') + 1)
  const named = `${account} (stripe card)`
  for (const command of [
    ['trial-balance'],
    ['trial-balance', '--from', '0'],
    ['account', reference],
    ['statement', account],
    ['replay'],
    ['explain', reference],
  ]) {
    const { code, out, err } = await cli.text('ledger', ...command)
    assert.equal(code, 0, err)
    assert.ok(out.includes(named), `${command}: ${out}`)
  }
  const csv = await cli.text('ledger', 'trial-balance', '--format', 'csv', '--book', book)
  assert.match(csv.out, new RegExp(`^${book},${account},.*,stripe card$`, 'm'))
  const written = async (format: Format): Promise<string> => {
    let text = ''
    const sink = {
      write: async (data: string | Buffer) => {
        text += data
      },
      finish: async () => undefined,
      abandon: async () => undefined,
    }
    await exportLedger({ log, decode, clock: Date.now, calendar: utcCalendar }, sink, {
      format,
      book: null,
      until: null,
    })
    return text
  }
  assert.match(
    await written('hledger'),
    new RegExp(`^account ${book}:${account}  ; type:A, gateway:stripe card$`, 'm'),
  )
  assert.match(
    await written('beancount'),
    new RegExp(`  account: "${account}"\n  book: "${book}"\n  gateway: "stripe card"\n`),
  )
  assert.match(await written('csv'), new RegExp(`,${book},${account},.*,stripe card,`, 'm'))
}

test('the things of a business', async (t) => {
  const app = await playBusiness(t)

  await t.test('every resource with an id in the log can be explained by it', async () => {
    const { core, cli } = app
    const { key } = await app.customer({ cents: 10_000 })
    const subscription = await app.client.post(
      '/api/v1/subscriptions',
      { product_id: 'residential-premium', quantity: 1, interval: 'month' },
      { key, headers: { 'Idempotency-Key': 'monthly' } },
    )
    assert.equal(subscription.status, 201, subscription.text)
    const hook = await app.client.post('/api/v1/webhooks', { url: 'http://127.0.0.1:9/gone' }, { key })
    assert.equal((await app.client.call('DELETE', `/api/v1/webhooks/${hook.body.id}`, { key })).status, 204)

    const placed = await app.client.post(
      '/api/v1/orders',
      { product_id: 'residential-premium', quantity: 5 },
      { key },
    )
    assert.equal((await cli('orders', 'refund', '--order', placed.body.orderId, '--cents', '100')).code, 0)

    const events = (await allEvents(core.log)).map(({ data, ...event }) => ({
      ...event,
      data: JSON.parse(data),
    }))
    const ids = [...new Set(events.flatMap(({ data }) => idsIn(data)))]
    const byPrefix = Map.groupBy(ids, (id) => id.slice(0, 3))
    assert.deepEqual([...byPrefix.keys()].sort(), Object.keys(home).sort())
    for (const [prefix, found] of byPrefix)
      for (const id of new Set([...found.slice(0, 2), ...found.slice(-2)])) {
        const { code, err, json } = await cli('ledger', 'explain', id, '--limit', '1000')
        assert.equal(code, 0, `${id}: ${err}`)
        assert.equal(json.leftOut, 0, id)
        const chain = json.chain.map(({ position }: { position: string }) => parsePosition(position))
        const wanted = events.filter(
          ({ stream, data }) =>
            stream === `${home[prefix]}-${id}` ||
            (stream.startsWith(`${home[prefix]}-`) && idsIn(data).includes(id) && shared.has(prefix)),
        )
        assert.ok(wanted.length > 0, id)
        for (const { position, type } of wanted)
          assert.ok(chain.includes(position), `${id}: ${type} is missing`)
      }
    await gatewaysAreNamed(cli, core.log)

    const [deposit = ''] = byPrefix.get('dep') ?? []
    const { json: short } = await cli('ledger', 'explain', deposit, '--limit', '2')
    const { json: whole } = await cli('ledger', 'explain', deposit)
    assert.equal(whole.leftOut, 0)
    assert.equal(short.leftOut, whole.chain.length - 2)
    assert.deepEqual(short.chain, whole.chain.slice(-2))
  })

  await t.test('the resources of an account are listed and shown by id, without secrets', async () => {
    const { cli } = app
    const { key, accountId } = await app.customer({ cents: 10_000 })
    const buy = async (path: string, body: object, more: object = {}) => {
      const { status, text, body: made } = await app.client.post(path, body, { key, ...more })
      assert.ok(status < 300, text)
      return made
    }
    const keyed = { headers: { 'Idempotency-Key': 'one' } }
    const isp = { country: 'USA', period_days: 30 }
    await buy(
      '/api/v1/subscriptions',
      { product_id: 'residential-premium', quantity: 1, interval: 'month' },
      keyed,
    )
    await buy('/api/v1/orders', { product_id: 'isp-static', quantity: 2, fulfillment_meta: isp }, keyed)
    await app.openDeposit(key, { amount_cents: 2_500 })
    const { secret } = await buy('/api/v1/webhooks', { url: 'http://127.0.0.1:9/hook' })
    const { accounts } = (await cli('accounts', 'list')).json
    const resellers = accounts.filter((account: { reseller: boolean }) => account.reseller)
    const { body: api } = await app.client.get('/api/v1/proxies', { key })
    const { plans } = (await app.client.get('/api/v1/plans', { key })).body
    const secrets = [
      secret,
      api.proxies[0].password,
      api.proxies[0].username,
      plans[0].connection.password,
      plans[0].connection.username,
    ]

    const owners: Readonly<Record<string, readonly string[]>> = {
      deposits: [accountId],
      plans: [accountId],
      proxies: [accountId],
      subscriptions: [accountId],
      webhooks: [accountId],
      customers: resellers.map((account: { accountId: string }) => account.accountId),
    }
    for (const [things, accountIds] of Object.entries(owners)) {
      let shown = 0
      for (const owner of accountIds) {
        const { code, err, json, out } = await cli(things, 'list', '--account', owner)
        assert.equal(code, 0, `${things}: ${err}`)
        assert.deepEqual([json.total, json.limit, json.offset], [json[things].length, 50, 0])
        const text = await cli.text(things, 'list', '--account', owner)
        for (const row of json[things]) {
          const id = Object.values(row)[0] as string
          const one = await cli(things, 'show', id)
          assert.deepEqual(one.json, { accountId: owner, ...row })
          const page = await cli.text(things, 'show', id)
          assert.match(page.out, new RegExp(`^account +${owner}$`, 'm'))
          assert.match(text.out, new RegExp(`^${id}  `, 'm'))
          for (const hidden of secrets)
            assert.ok(!(out + text.out + page.out).includes(hidden), `${things}: ${hidden}`)
          shown += 1
        }
        const paged = await cli(things, 'list', '--account', owner, '--limit', '1', '--offset', '1')
        assert.deepEqual(paged.json[things], json[things].slice(1, 2))
      }
      assert.ok(shown > 0, things)
      // Without an account those of all accounts come, in the same order.
      const all = await cli(things, 'list', '--limit', '1000')
      assert.equal(all.code, 0, `${things}: ${all.err}`)
      assert.equal(all.json.total, all.json[things].length)
      for (const owner of accountIds) {
        const { json } = await cli(things, 'list', '--account', owner, '--limit', '1000')
        const ofOwner = all.json[things].filter((row: { accountId: string }) => row.accountId === owner)
        assert.deepEqual(ofOwner, json[things])
      }
      const { out } = await cli.text(things, 'list', '--limit', '1', '--offset', '0')
      assert.match(out, /^\S+ +ACCOUNT .*\n\S+ +acc_[0-9a-f]{32} /)
    }
    const { json } = await cli('deposits', 'list', '--account', accountId, '--status', 'paid')
    assert.deepEqual([json.deposits, json.total], [[], 0])
  })
})

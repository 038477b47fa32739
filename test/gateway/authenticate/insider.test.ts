import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, type TestContext, test } from 'node:test'
import type { GatewayWorker } from '../../../src/app/gateway-process.ts'
import { createMeter } from '../../../src/features/plans/meter-traffic.ts'
import { rotatePlanPassword } from '../../../src/features/plans/routes.ts'
import type { AccountId, PlanId } from '../../../src/kernel/ids.ts'
import { createLogger } from '../../../src/platform/http/logging.ts'
import { createCredentials } from '../../../src/platform/vault/credentials.ts'
import { type OwnApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { basic, talkTo } from '../support/clients.ts'
import { startRealWorker, whoami } from '../support/real-worker.ts'
import { tcpTarget } from '../support/targets.ts'

const cause = { actor: { kind: 'operator', name: 'test' }, correlationId: 'run_test' } as const
const dayMs = 86_400_000

type Login = { readonly username: string; readonly password: string }

/** SQL changes of the read tables while a gateway runs. */
describe('a row of a read table that was changed with SQL', () => {
  const ends: (() => unknown)[] = []
  const held = {
    name: 'insider',
    after: (end: () => unknown) => void ends.push(end),
  } as unknown as TestContext
  let app: OwnApp
  let worker: GatewayWorker
  let reseller: AccountId
  let laterMs = 0
  const lines: string[] = []

  before(async () => {
    const settings = { FAREBOX_GATEWAY_ALLOW_LOOPBACK: 'on' }
    app = await testApp(held, { own: true, settings })
    worker = await startRealWorker(
      held,
      app,
      {},
      {
        clock: () => Date.now() + app.clock.aheadMs,
        monotonicMs: () => performance.now() + laterMs,
        logger: createLogger('error', { write: (line: string) => void lines.push(line) }),
      },
    )
    ends.unshift(() => worker.close())
    const { rows } = await sql('select account_id from read.accounts where reseller')
    reseller = rows[0].account_id
  })
  after(async () => {
    for (const end of ends) await end()
  })
  beforeEach(() => {
    lines.length = 0
  })

  const sql = (text: string, ...values: readonly unknown[]) => app.core.pool.query(text, values as unknown[])
  /** A gateway's cached row may be a second old. */
  const edit = async (text: string, ...values: readonly unknown[]): Promise<void> => {
    const { rowCount } = await sql(text, ...values)
    assert.equal(rowCount, 1, text)
    laterMs += 1_000
  }
  /** What differed, of each line that was logged. */
  const reported = () =>
    lines
      .map((line) => JSON.parse(line))
      .filter(({ msg }) => /differs from the log/.test(msg))
      .map(({ id, fields }) => `${id}: ${fields.join(', ')}`)

  const order = async (body: object) => {
    const answer = await app.buyer.post('/api/v1/orders', body)
    assert.equal(answer.status, 201, JSON.stringify(answer.body))
    return answer.body
  }
  /** The buyer has one plan of a product. */
  const buyPlan = async (productId: string) => {
    const { planId } = await order({ product_id: productId, quantity: 1 })
    const { body } = await app.buyer.get(`/api/v1/plans/${planId}`)
    return { planId: planId as PlanId, login: body.connection as Login }
  }
  const loginOf = (planId: PlanId, generation: number): Login =>
    createCredentials(app.core.keys.master).of(planId, generation)
  const ownerOf = async (planId: PlanId): Promise<AccountId> =>
    (await sql('select account_id from read.plans where plan_id = $1', planId)).rows[0].account_id

  const connect = async ({ username, password }: Login, target: string) => {
    const talk = await talkTo(worker.port)
    const login = basic(username, password)
    talk.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\nProxy-Authorization: ${login}\r\n\r\n`)
    return { talk, head: await talk.until('\r\n\r\n') }
  }
  /** `200`, or `status error` of a refusal. */
  const answerTo = async (login: Login): Promise<string> => {
    const { talk, head } = await connect(login, 'whoami.sandbox:80')
    talk.socket.destroy()
    const [, status] = /^HTTP\/1\.1 (\d+)/.exec(head) ?? []
    const [, error] = /X-Proxy-Error: (\w+)/.exec(head) ?? []
    return error === undefined ? `${status}` : `${status} ${error}`
  }
  const becomes = (login: Login, answer: string) =>
    until(async () => (await answerTo(login)) === answer, { what: answer })

  const rotate = async (planId: PlanId): Promise<Login> => {
    const { runner } = app.core
    const accountId = await ownerOf(planId)
    const { generation } = await rotatePlanPassword(runner, planId, { ...cause, accountId })
    const row = 'select from read.plans where plan_id = $1 and generation = $2'
    await until(async () => (await sql(row, planId, generation)).rowCount === 1)
    return loginOf(planId, generation)
  }

  test('does not reactivate a former password', async () => {
    const { planId, login: former } = await buyPlan('residential-premium')
    assert.equal(await answerTo(former), '200')
    const current = await rotate(planId)
    app.wait(121_000)
    await becomes(former, '407 wrong_credentials')
    assert.deepEqual(reported(), [])
    await edit('update read.plans set generation = 0, rotated_at = null where plan_id = $1', planId)
    for (let n = 0; n < 3; n += 1) {
      assert.equal(await answerTo(former), '407 wrong_credentials')
      assert.equal(await answerTo(current), '200')
    }
    assert.deepEqual(reported(), [`${planId}: generation, rotatedAtMs`])
  })

  test('does not reactivate a former password although the gateway never read the original row', async () => {
    const { planId } = await buyPlan('residential-premium')
    const former = await rotate(planId)
    await becomes(former, '200')
    const { rows } = await sql('select generation, rotated_at from read.plans where plan_id = $1', planId)
    await rotate(planId)
    await edit(
      'update read.plans set generation = $2, rotated_at = $3 where plan_id = $1',
      planId,
      rows[0].generation,
      rows[0].rotated_at,
    )
    app.wait(121_000)
    laterMs += 10_000
    await becomes(former, '407 wrong_credentials')
    assert.deepEqual(reported(), [`${planId}: generation, rotatedAtMs`])
  })

  test('admits no client to a plan of a blocked account, or under another account', async () => {
    const { planId, login } = await buyPlan('residential-basic')
    assert.equal(await answerTo(login), '200')
    const { accounts } = app
    const accountId = await ownerOf(planId)
    await accounts.block(accountId, 'test', cause)
    await becomes(login, '407 account_blocked')
    await edit('update read.accounts set blocked = false where account_id = $1', accountId)
    assert.equal(await answerTo(login), '407 account_blocked')
    assert.deepEqual(reported(), [`${planId}: blocked`])
    await edit('update read.plans set account_id = $2 where plan_id = $1', planId, reseller)
    assert.equal(await answerTo(login), '407 account_blocked')
    await edit(`update read.plans set account_id = 'acc_unknown' where plan_id = $1`, planId)
    assert.equal(await answerTo(login), '407 account_blocked')
    await edit('update read.plans set account_id = $2 where plan_id = $1', planId, accountId)
    await accounts.unblock(accountId, cause)
    await becomes(login, '200')
  })

  test('gives no speed, no targeting and no time that was not bought', async () => {
    const { planId, login } = await buyPlan('residential-unlimited')
    const osToken = { ...login, username: `${login.username}-country-us-os-mac` }
    const refused = await answerTo(osToken)
    assert.equal(refused, '403 targeting_refused')
    await edit(`update read.plans set product_id = 'residential-premium' where plan_id = $1`, planId)
    assert.equal(await answerTo(osToken), refused)
    assert.deepEqual(reported(), [`${planId}: productId`])
    await edit(
      `update read.plans set product_id = 'residential-unlimited', speed_units = 100 where plan_id = $1`,
      planId,
    )
    assert.equal(await answerTo(login), '200')
    assert.deepEqual(reported(), [`${planId}: productId`, `${planId}: speedUnits`])
    await edit(
      `update read.plans set speed_units = 1, expires_at = expires_at + interval '1 year' where plan_id = $1`,
      planId,
    )
    assert.equal(await answerTo(login), '200')
    assert.equal(reported().at(-1), `${planId}: expiresAtMs`)
    app.wait(31 * dayMs)
    assert.equal(await answerTo(login), '407 plan_ended')
  })

  test('charges no byte that the log does not have, and a top-up takes effect at once', async (t) => {
    const { pool, runner, clock, logger } = app.core
    const product = 'residential-basic'
    const { planId, login } = await buyPlan(product)
    const { rows } = await sql('select total_bytes from read.plans where plan_id = $1', planId)
    const total = rows[0].total_bytes
    const left = 2_000_000
    const meter = createMeter({ pool, runner, clock, logger })
    await meter.report({ reporter: 'test', sequence: 1, traffic: new Map([[planId, total - left]]) })
    const logged = 'select from read.plans where plan_id = $1 and used_bytes = $2'
    await until(async () => (await sql(logged, planId, total - left)).rowCount, { what: 'what was counted' })

    const chunk = Buffer.alloc(65_536)
    const target = await tcpTarget(t, (socket) => {
      const pour = (): void => {
        while (socket.write(chunk));
      }
      socket.on('drain', pour)
      pour()
    })
    /** Bytes until the tunnel is cut. */
    const passed = async (): Promise<number> => {
      const { talk, head } = await connect(login, `127.0.0.1:${target}`)
      if (/ 466 /.test(head)) return 0
      assert.match(head, /^HTTP\/1\.1 200 /)
      return (await talk.rest()).length
    }
    await edit('update read.plans set total_bytes = total_bytes + 1000000000 where plan_id = $1', planId)
    assert.equal(await answerTo(login), '200')
    assert.deepEqual(reported(), [`${planId}: totalBytes`])
    const bytes = (await passed()) + (await passed())
    assert.ok(bytes > 0 && bytes <= left, `${bytes}`)
    assert.equal(await answerTo(login), '466 traffic_exhausted')

    // Nor by a counter that was set back, once the log has it.
    await until(async () => (await sql(logged, planId, total)).rowCount, { what: 'the log' })
    await edit('update read.plans set total_bytes = $2 where plan_id = $1', planId, total)
    laterMs += 10_000
    await becomes(login, '466 traffic_exhausted')
    await edit('update work.traffic set used_bytes = 0 where plan_id = $1', planId)
    await edit('update read.plans set used_bytes = 0 where plan_id = $1', planId)
    assert.equal(await answerTo(login), '466 traffic_exhausted')

    await order({ product_id: product, quantity: 1 })
    await until(async () => (await answerTo(login)) === '200', { timeoutMs: 2_000, what: 'the top-up' })
  })

  test('is not a plan without its event in the log', async () => {
    const { planId, login } = await buyPlan('residential-basic')
    assert.equal(await answerTo(login), '200')
    const forged = `pln_forged${planId.slice(-8)}`
    await sql(
      `insert into read.plans
       select (jsonb_populate_record(plan, jsonb_build_object('plan_id', $2::text, 'started_at', now() + interval '1 year'))).*
         from read.plans plan where plan_id = $1`,
      planId,
      forged,
    )
    assert.equal(await answerTo(loginOf(forged as PlanId, 0)), '407 wrong_credentials')
    assert.deepEqual(reported(), [`${forged}: the log has none`])
  })

  test('moves no rental to another owner, another exit or a later end', async () => {
    const meta = { country: 'USA', period_days: 30 }
    const { orderId } = await order({ product_id: 'ipv6-datacenter', quantity: 10, fulfillment_meta: meta })
    const { proxies } = (await app.buyer.get(`/api/v1/proxies?order_id=${orderId}`)).body
    const [{ proxyId, ip, username, password }] = proxies
    const line = `http://${username}:${password}@127.0.0.1:${worker.port}`
    assert.equal((await whoami(line)).ip, ip)
    assert.deepEqual(reported(), [])

    const endpoint = { protocol: 'socks5', host: 'thief.example', port: 1080, udp: false, credentialId: null }
    await edit(
      'update read.proxies set endpoint = $2::jsonb where proxy_id = $1',
      proxyId,
      JSON.stringify(endpoint),
    )
    assert.equal((await whoami(line)).ip, ip)
    await edit(`update read.proxies set ip = '203.0.113.1' where proxy_id = $1`, proxyId)
    assert.equal((await whoami(line)).ip, ip)
    await edit(
      `update read.proxies set expires_at = expires_at + interval '1 year', account_id = $2 where proxy_id = $1`,
      proxyId,
      reseller,
    )
    assert.equal((await whoami(line)).ip, ip)
    assert.deepEqual(reported(), [
      `${proxyId}: endpoint`,
      `${proxyId}: ip, endpoint`,
      `${proxyId}: accountId, ip, expiresAtMs, endpoint`,
    ])
    app.wait(31 * dayMs)
    assert.equal(await answerTo({ username, password }), '407 rental_ended')
    await edit(
      `update read.proxies set expires_at = expires_at - interval '1 year' where proxy_id = $1`,
      proxyId,
    )
    const released = 'select from read.proxies where proxy_id = $1 and released_at is not null'
    await until(async () => (await sql(released, proxyId)).rowCount, { what: 'the release' })
    await edit('update read.proxies set released_at = null where proxy_id = $1', proxyId)
    assert.equal(await answerTo({ username, password }), '407 rental_ended')
    assert.equal(reported().at(-1), `${proxyId}: the log has none`)
  })
})

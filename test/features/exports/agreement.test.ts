import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { groups } from '../../../projections/groups.ts'
import { runCli } from '../../../src/app/cli-program.ts'
import { commands as exportCommands } from '../../../src/features/exports/commands.ts'
import type { AccountId } from '../../../src/kernel/ids.ts'
import { createPool } from '../../../src/platform/postgres/pool.ts'
import { openLog } from '../../platform/eventstore/open-postgres.ts'
import { caughtUp, startEngine } from '../../platform/projections/engine.ts'
import { done } from '../../support/app-actions.ts'
import { farebox } from '../../support/farebox.ts'
import { operate } from '../../support/operator.ts'
import { emptyDatabase } from '../../support/postgres.ts'
import { type TestApp, testApp } from '../../support/test-app.ts'
import { until } from '../../support/until.ts'
import { assertVerified } from '../../support/verified.ts'
import { scratch } from './books.ts'
import { hledgerBalances, needs } from './programs.ts'
import { readSecondly } from './second-reader.ts'

const operator = { kind: 'operator', name: 'test' } as const

/** A day's business over HTTP and on the command line, with every kind of money. */
const doBusiness = async (_t: TestContext, { env, buyer, reseller, demo }: TestApp): Promise<void> => {
  const cli = async (...args: string[]) => {
    const { code, out, err } = await operate([...args, '--json'], env)
    assert.equal(code, 0, err)
    return JSON.parse(out)
  }
  const order = async (client: TestApp['buyer'], json: object) => {
    const { status, body } = await client.post('/api/v1/orders', json, {
      headers: { 'Idempotency-Key': randomUUID() },
    })
    assert.equal(status, 201, JSON.stringify(body))
    return body
  }
  const plan = await order(buyer, { product_id: 'residential-premium', quantity: 5 })
  const rental = {
    product_id: 'isp-static',
    quantity: 2,
    fulfillment_meta: { country: 'USA', period_days: 30 },
  }
  await order(buyer, rental)
  await order(reseller, { product_id: 'residential-premium', quantity: 5 })
  const account = demo.buyer.accountId
  await cli('orders', 'refund', '--order', plan.orderId ?? plan.order_id ?? plan.id, '--cents', '101')
  const adjust = ['wallet', 'adjust', '--account', account, '--cents']
  await cli(...adjust, '-7', '--reference', '=1+1 "counted, twice"; \\', '--reason', 'correction')
  const seller = demo.reseller.accountId
  const customer = ['--account', seller, '--customer', 'alice-17', '--reference', 'cash']
  await cli('customers', 'credit', ...customer, '--cents', '2500')
  const taken = ['--cents', '-99999999', '--reason', 'chargeback', '--gateway', 'stripe']
  await cli('wallet', 'adjust', '--account', demo.scraper.accountId, '--reference', 'cb-1', ...taken)
}

/** A payment by a saved card, which the service made by itself. Returns the account and its deposit. */
const topUp = async (app: TestApp): Promise<{ readonly accountId: string; readonly depositId: string }> => {
  const { accountId, key } = await app.customer({ cents: 100 })
  const { client } = app
  const path = '/api/v1/wallet/auto-topup'
  const { url } = (await done(client.post(`${path}/card`, undefined, { key }))).body
  await fetch(url, { method: 'POST', body: new URLSearchParams({ card: 'good' }), redirect: 'manual' })
  await until(async () => (await client.get(path, { key })).body.card, { what: 'the saved card' })
  const json = { thresholdCents: 1_000, amountCents: 2_000, monthlyMaxCents: 2_000 }
  await done(client.call('PUT', path, { key, json }))
  await app.untilBalance(key, 2_100)
  const [deposit] = (await done(client.get('/api/v1/deposits', { key }))).body.deposits
  return { accountId, depositId: deposit.deposit_id }
}

test('verification, the service, its second reader, hledger and the HTTP interface give the same balances', async (t) => {
  const app = await testApp(t, { own: 'file' })
  await doBusiness(t, app)
  const topup = await topUp(app)
  const directory = await scratch(t)
  const write = async (format: string, ...more: string[]) => {
    const path = join(directory, format)
    const args = ['ledger', 'export', '--format', format, '--out', path, ...more]
    const { code, out, err } = await operate([...args, '--json'], app.env)
    assert.equal(code, 0, err)
    assert.equal(JSON.parse(out).bytes, (await stat(path)).size)
    return path
  }
  const { balances, available } = readSecondly(await write('jsonl'))
  for (const [client, { accountId }] of [
    [app.buyer, app.demo.buyer],
    [app.reseller, app.demo.reseller],
  ] as const) {
    const wallet = await client.get('/api/v1/wallet')
    const micros = -(balances.get(`service|liabilities:wallet:${accountId}`) ?? 0n)
    assert.equal(BigInt(wallet.body.balanceCents), micros / 10_000n)
    assert.equal(available.get(accountId), micros)
  }
  // The payment of an automatic top-up is booked at the provider as any card payment.
  assert.equal(available.get(topup.accountId as AccountId), 21_000_000n)
  const hledger = await readFile(await write('hledger'), 'utf8')
  const entry = hledger.split('\n\n').find((text) => text.includes(topup.depositId))
  assert.match(entry ?? '', /assets:gateway:\w*stripe/)
  const { DATABASE_URL: url = '', FAREBOX_SEAL_KEY: sealKey = '' } = app.env
  const verified = await assertVerified(t, { url, sealKey })
  assert.ok(verified.events >= readSecondly(await write('jsonl')).events)
  if (!(await needs(t, 'hledger', 'hledger'))) return
  const reported = await hledgerBalances(await write('hledger'))
  assert.deepEqual(reported, new Map([...balances].map(([key, value]) => [key.replace('|', ':'), value])))
})

test('an import gives the same projections, row by row, and only customers need new keys', async (t) => {
  const app = await testApp(t, { own: 'file' })
  await doBusiness(t, app)
  const path = join(await scratch(t), 'log.jsonl')
  const exported = await operate(['ledger', 'export', '--format', 'jsonl', '--out', path], app.env)
  assert.equal(exported.code, 0, exported.err)

  const { url } = await emptyDatabase(t)
  const env = { ...app.env, DATABASE_URL: url, FAREBOX_DEMO: 'off' }
  const imported = await operate(['ledger', 'import', path, '--json'], env)
  assert.equal(imported.code, 0, imported.err)
  const { events } = JSON.parse(imported.out)

  const pool = createPool({ url, applicationName: 'farebox-test' })
  t.after(() => pool.end())
  const log = await openLog(url)
  t.after(() => log.close())
  const engine = await startEngine(t, pool, log, groups)
  await caughtUp(engine, log)
  const source = app.core
  assert.equal(await app.farebox.projecting.caughtUp(20_000), true)
  assert.equal(await source.log.head(), events, 'the service stood still')
  for (const { name } of groups.flatMap(({ models }) => models.flatMap(({ tables }) => tables))) {
    const rows = async (from: typeof pool) =>
      (await from.query<{ row: string }>(`select t::text as row from read.${name} t order by 1`)).rows
    assert.deepEqual(await rows(pool), await rows(source.pool), name)
  }

  const account = app.demo.buyer.accountId
  const issued = await operate(['keys', 'create', '--account', account, '--scopes', 'buy', '--json'], env)
  assert.equal(issued.code, 0, issued.err)
})

test('wrong input exits with 2, says what is wrong, and leaves no file', async (t) => {
  const { farebox: app, demo } = await testApp(t, { own: 'file' })
  const run = async (args: readonly string[]) => {
    const lines: string[] = []
    const { core, config } = app
    const context = { ...core, auditorPool: core.pool, config, actor: operator, correlationId: 'test' }
    const code = await runCli(args, exportCommands, {
      out: (text) => lines.push(text),
      err: (text) => lines.push(text),
      open: async () => ({ context, close: async () => undefined }),
    })
    return { code, err: lines.join('\n') }
  }
  const directory = await scratch(t)
  const out = join(directory, 'out')
  const noExport = join(directory, 'no-export')
  await writeFile(noExport, 'date,amount\n2026-11-21,5\n')
  const before = await readdir(directory)
  const csv = ['ledger', 'export', '--format', 'csv', '--out', out]
  const xero = ['ledger', 'export', '--format', 'xero', '--out', out]
  const october = [...xero, '--from', '2026-10-01', '--to', '2026-11-01']
  const wrong: readonly (readonly [readonly string[], RegExp])[] = [
    [['ledger', 'export', '--out', out], /--format/],
    [['ledger', 'export', '--format', 'xml'], /hledger, beancount, csv, jsonl/],
    [[...csv, '--until', 'yesterday'], /a position such as pos_0_1284/],
    [[...csv, '--until', '2026-02-30'], /a position such as pos_0_1284/],
    [[...csv, '--until', '99999999'], /past the end of the log/],
    [[...csv, '--book', 'sales'], /service, or reseller:/],
    [[...csv, '--book', `reseller:${demo.buyer.accountId}`], /there is no reseller/],
    [['ledger', 'export', '--format', 'jsonl', '--out', out, '--book', 'service'], /takes no --book/],
    [['ledger', 'export', '--format', 'csv', '--json'], /give --out/],
    [['ledger', 'export', '--format', 'csv', '--out', join(out, 'x')], /cannot be written/],
    [[...csv, '--mapping', noExport], /csv takes no --mapping/],
    [[...xero, '--from', '2026-11-01'], /xero needs --from, --to and --mapping/],
    [[...xero, '--from', '2026-11-31'], /It must be a day such as/],
    [[...october, '--mapping', noExport, '--until', '5'], /takes --to in place of --until/],
    [[...october, '--mapping', noExport], /first line must be account,code,tax_rate/],
    [[...october, '--mapping', join(directory, 'nothing')], /cannot be read/],
    [[...october, '--mapping', noExport, '--to', '2026-10-01'], /must be after --from/],
    [[...october, '--mapping', noExport, '--to', '9999-01-01'], /not over: export it from 9999-01-01T00:05/],
    [['ledger', 'import', join(directory, 'nothing')], /cannot be read/],
    [['ledger', 'import', directory], /is a directory/],
    [['ledger', 'import', noExport], /nothing was written: line 1 is no JSON object/],
  ]
  for (const [args, why] of wrong) {
    const { code, err } = await run(args)
    assert.equal(code, 2, `${args.join(' ')}: ${err}`)
    assert.match(err, why)
  }
  assert.deepEqual(await readdir(directory), before)
})

test('standard output contains only the export, and a file is replaced completely', async (t) => {
  const { env } = await testApp(t, { own: 'file' })
  const path = join(await scratch(t), 'postings.csv')
  await writeFile(path, 'old')
  const piped = await farebox(t, ['ledger', 'export', '--format', 'csv'], env)
  assert.equal(piped.code, 0, piped.err)
  const filed = await operate(['ledger', 'export', '--format', 'csv', '--out', path], env)
  assert.equal(filed.code, 0, filed.err)
  assert.equal(piped.out, await readFile(path, 'utf8'))
  assert.equal((await stat(path)).mode & 0o777, 0o600)
  assert.match(piped.out, /^\ufeffposition,time,event,type,book,account,debit,credit,currency,/)
})

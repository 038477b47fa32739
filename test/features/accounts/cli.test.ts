import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { runCli } from '../../../src/app/cli-program.ts'
import { claimEmail } from '../../../src/features/accounts/account-vault.ts'
import { commands as accountCommands } from '../../../src/features/accounts/commands.ts'
import { commands as walletCommands } from '../../../src/features/wallet/commands.ts'
import { type AccountId, newId } from '../../../src/kernel/ids.ts'
import type { CliContext } from '../../../src/platform/cli/cli-context.ts'
import { createKysely } from '../../../src/platform/postgres/kysely.ts'
import { until } from '../../support/until.ts'
import { cause, projectedWorld, serviceWorld } from './world.ts'

/** Runs command lines like `npm run farebox -- …`, on the given world. */
const shell = async (t: TestContext) => shellOver(await serviceWorld(t))
const projectedShell = async (t: TestContext) => shellOver(await projectedWorld(t))

const shellOver = <World extends Awaited<ReturnType<typeof serviceWorld>>>(world: World) => {
  const run = async (...args: readonly string[]) => {
    const out: string[] = []
    const err: string[] = []
    const code = await runCli(args, [...accountCommands, ...walletCommands], {
      out: (text) => out.push(text),
      err: (text) => err.push(text),
      open: async () => ({
        context: {
          ...cause,
          pool: world.pool,
          db: createKysely(world.pool),
          log: world.log,
          runner: world.runner,
          clock: Date.now,
        } as unknown as CliContext,
        close: async () => undefined,
      }),
    })
    const text = out.join('\n')
    return { code, out: text, err: err.join('\n'), json: args.includes('--json') ? JSON.parse(text) : null }
  }
  return { ...world, run }
}

test('an account, a key and money are created manually, each printed as JSON', async (t) => {
  const { run } = await shell(t)
  const made = await run('accounts', 'create', '--email', 'ann@example.com', '--reseller', '--json')
  assert.equal(made.code, 0)
  const { accountId } = made.json
  assert.deepEqual(made.json, { accountId, email: 'ann@example.com', reseller: true })
  const key = await run(
    'keys',
    'create',
    '--account',
    accountId,
    '--scopes',
    'buy,scrape',
    '--daily-cap-cents',
    '500',
    '--json',
  )
  assert.match(key.json.key, /^fbx_[0-9A-Za-z]{40}$/)
  const { keyId } = key.json
  assert.deepEqual(key.json, {
    keyId,
    key: key.json.key,
    accountId,
    scopes: ['buy', 'scrape'],
    name: null,
    dailyCapCents: 500,
    capCovers: 'orders',
    networks: null,
    expiresAt: null,
  })
  const credit = await run(
    'wallet',
    'credit',
    '--kind=payment',
    '--account',
    accountId,
    '--cents',
    '2500',
    '--reference',
    'wire 7',
    '--json',
  )
  assert.deepEqual(credit.json, {
    accountId,
    reference: 'wire 7',
    amountCents: 2500,
    balanceCents: 2500,
    currency: 'USD',
  })
  assert.deepEqual((await run('accounts', 'show', accountId, '--json')).json, {
    accountId,
    email: 'ann@example.com',
    reseller: true,
    blocked: false,
    block: null,
    balanceCents: 2500,
    heldCents: 0,
    owedCents: 0,
    currency: 'USD',
    keys: [
      {
        keyId,
        name: null,
        prefix: key.json.key.slice(0, 8),
        scopes: ['buy', 'scrape'],
        dailyCapCents: 500,
        capCovers: 'orders',
        networks: null,
        expiresAt: null,
        lastUsedAt: null,
        revoked: false,
        state: 'works',
      },
    ],
  })
})

test('a repeated reference is already_applied, exits with 1 and moves nothing', async (t) => {
  const { run } = await shell(t)
  const { accountId } = (await run('accounts', 'create', '--email', 'a@b.c', '--json')).json
  const credit = [
    ...['wallet', 'credit', '--kind=payment', '--account', accountId],
    ...['--cents', '100', '--reference', 'r', '--json'],
  ]
  assert.equal((await run(...credit)).code, 0)
  const again = await run(...credit)
  assert.deepEqual([again.code, again.json.code, again.json.amountCents], [1, 'already_applied', 100])
  assert.equal((await run('accounts', 'show', accountId, '--json')).json.balanceCents, 100)
})

test('a wallet is corrected down by a negative amount, and never below zero', async (t) => {
  const { run } = await shell(t)
  const { accountId } = (await run('accounts', 'create', '--email', 'a@b.c', '--json')).json
  await run(
    ...['wallet', 'credit', '--kind=payment', '--account', accountId],
    ...['--cents', '100', '--reference', 'r'],
  )
  const adjust = (cents: string, reference: string, ...more: string[]) =>
    run(
      'wallet',
      'adjust',
      '--account',
      accountId,
      '--cents',
      cents,
      '--reference',
      reference,
      '--json',
      ...more,
    )
  assert.equal((await adjust('-30', 'a')).json.balanceCents, 70)
  assert.deepEqual((await adjust('-71', 'b')).json, {
    error: 'the wallet has $0.70 and cannot give $0.71; take less, or credit it first',
    code: 'insufficient_balance',
    balanceCents: 70,
    amountCents: 71,
    shortfallCents: 1,
  })
  assert.equal(
    (await adjust('-90', 'c', '--reason', 'chargeback', '--gateway', 'stripe')).json.balanceCents,
    0,
  )
  const shown = (await run('accounts', 'show', accountId, '--json')).json
  assert.deepEqual([shown.blocked, shown.owedCents], [true, 20])
})

test('a credit beyond what a wallet counts exactly is refused with the maximum, and moves nothing', async (t) => {
  const { run } = await shell(t)
  const { accountId } = (await run('accounts', 'create', '--email', 'a@b.c', '--json')).json
  const credit = (cents: number, reference: string) =>
    run(
      ...['wallet', 'credit', '--kind=payment', '--account', accountId],
      ...['--cents', `${cents}`, '--reference', reference, '--json'],
    )
  for (let n = 1; n <= 9; n += 1) assert.equal((await credit(100_000_000_000, `billion ${n}`)).code, 0)
  const refused = await credit(100_000_000_000, 'billion 10')
  assert.deepEqual(
    [refused.code, refused.json.code, refused.json.maxCents],
    [1, 'invalid_amount', 900_719_925_474],
  )
  assert.equal((await credit(719_925_474, 'the rest')).json.balanceCents, 900_719_925_474)
})

test('a blocked account shows the reason, the time and the actor', async (t) => {
  const { run } = await shell(t)
  const { accountId } = (await run('accounts', 'create', '--email', 'a@b.c', '--json')).json
  await run('accounts', 'block', accountId, '--reason', 'a first look')
  await run('accounts', 'unblock', accountId)
  assert.match((await run('accounts', 'show', accountId)).out, /^blocked +no$/m)
  await run('accounts', 'block', accountId, '--reason', 'stolen cards')
  const { blocked, block } = (await run('accounts', 'show', accountId, '--json')).json
  assert.deepEqual([blocked, block.reason, block.by], [true, 'stolen cards', 'operator:tester'])
  assert.match(block.at, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  assert.match(
    (await run('accounts', 'show', accountId)).out,
    /^blocked +yes, since [\dTZ:.-]+ by operator:tester: stolen cards$/m,
  )
  await run('wallet', 'credit', '--kind=payment', '--account', accountId, '--cents', '10', '--reference', 'r')
  const back = ['--reason', 'chargeback', '--gateway', 'stripe', '--reference', 'c']
  await run('accounts', 'unblock', accountId)
  await run('wallet', 'adjust', '--account', accountId, '--cents', '-30', ...back)
  assert.match((await run('accounts', 'show', accountId)).out, /^blocked +yes, .*: chargeback c$/m)
})

test('block, unblock, cap and revoke say whether anything changed', async (t) => {
  const { run } = await shell(t)
  const { accountId } = (await run('accounts', 'create', '--email', 'a@b.c', '--json')).json
  const { keyId } = (await run('keys', 'create', '--account', accountId, '--scopes', 'buy', '--json')).json
  const changed = async (...args: string[]) => (await run(...args, '--json')).json.changed
  assert.equal(await changed('accounts', 'block', accountId), true)
  assert.equal(await changed('accounts', 'block', accountId), false)
  assert.equal(await changed('accounts', 'unblock', accountId), true)
  assert.equal(await changed('keys', 'cap', keyId, '--daily-cap-cents', '100'), true)
  assert.equal(await changed('keys', 'cap', keyId), true)
  assert.equal(await changed('keys', 'revoke', keyId), true)
  assert.equal(await changed('keys', 'revoke', keyId), false)
  assert.equal((await run('keys', 'list', '--json')).json.keys[0].revoked, true)
})

test('a new key says what its cap does not limit', async (t) => {
  const { run } = await shell(t)
  const { accountId } = (await run('accounts', 'create', '--email', 'a@b.c', '--json')).json
  const create = (...args: string[]) =>
    run('keys', 'create', '--account', accountId, '--daily-cap-cents', '100', ...args)
  assert.match(
    (await create('--scopes', 'buy,scrape')).out,
    /^daily cap +.* for orders, not for scraper calls$/m,
  )
  assert.match((await create('--scopes', 'buy')).out, /^daily cap +.* for orders$/m)
  const refused = await create('--scopes', 'scrape')
  assert.equal(refused.code, 1)
  assert.match(refused.err, /the cap would limit nothing.*--cap-covers everything/)
})

test('keys of all accounts or of one are listed, without the keys themselves', async (t) => {
  const { run } = await shell(t)
  const accounts: string[] = []
  for (const email of ['a@b.c', 'd@e.f']) {
    const { accountId } = (await run('accounts', 'create', '--email', email, '--json')).json
    await run('keys', 'create', '--account', accountId, '--scopes', 'buy')
    accounts.push(accountId)
  }
  const owners = async (...args: string[]) =>
    (await run('keys', 'list', ...args, '--json')).json.keys.map(
      (key: { accountId: string }) => key.accountId,
    )
  assert.deepEqual((await owners()).sort(), accounts.sort())
  assert.deepEqual(await owners('--account', accounts[0]!), [accounts[0]])
  assert.doesNotMatch((await run('keys', 'list')).out, /fbx_[0-9A-Za-z]{40}/)
})

test('a key has a name, an end and networks, is rotated with all of them, and both are shown with their last use', async (t) => {
  const { run, pool } = await shell(t)
  const { accountId } = (await run('accounts', 'create', '--email', 'a@b.c', '--json')).json
  const made = await run(
    ...['keys', 'create', '--account', accountId, '--scopes', 'buy', '--name', 'web shop'],
    ...['--networks', '203.0.113.0/24, 2001:DB8::/32', '--expires-in-days', '90', '--json'],
  )
  assert.equal(made.code, 0, made.err)
  const { keyId, networks, expiresAt } = made.json
  assert.deepEqual(networks, ['203.0.113.0/24', '2001:db8::/32'])
  const days = (Date.parse(expiresAt) - Date.now()) / 86_400_000
  assert.ok(days > 89.9 && days <= 90, expiresAt)
  await pool.query('insert into work.key_uses values ($1, $2)', [keyId, '2026-11-21T00:00:00.000Z'])

  const rolled = await run('keys', 'roll', keyId, '--overlap', '24h', '--json')
  assert.equal(rolled.code, 0, rolled.err)
  assert.notEqual(rolled.json.key, made.json.key)
  const { keyId: nextId } = rolled.json
  const { keys } = (await run('accounts', 'show', accountId, '--json')).json
  const [former, next] = keys
  assert.deepEqual(
    [former.keyId, former.name, former.lastUsedAt, former.state, former.expiresAt],
    [keyId, 'web shop', '2026-11-21T00:00:00.000Z', 'works', rolled.json.formerExpiresAt],
  )
  const overlapHours = (Date.parse(former.expiresAt) - Date.now()) / 3_600_000
  assert.ok(overlapHours > 23.9 && overlapHours <= 24, former.expiresAt)
  assert.deepEqual(
    [next.keyId, next.name, next.lastUsedAt, next.networks, next.scopes],
    [nextId, 'web shop', null, networks, ['buy']],
  )
  assert.ok(Date.parse(next.expiresAt) >= Date.parse(expiresAt))
  for (const shown of [await run('accounts', 'show', accountId), await run('keys', 'list')])
    assert.match(shown.out, /web shop .* 203\.0\.113\.0\/24,2001:db8::\/32 +2026-11-21T00:00:00\.000Z /)
})

test('an account is found by its e-mail in any case, and is named when its e-mail is already used', async (t) => {
  const { run } = await shell(t)
  const { accountId } = (await run('accounts', 'create', '--email', 'Ann@example.com', '--json')).json
  const shown = await run('accounts', 'show', 'ann@EXAMPLE.com', '--json')
  assert.deepEqual([shown.json.accountId, shown.json.email], [accountId, 'Ann@example.com'])
  assert.deepEqual(shown.json, (await run('accounts', 'show', accountId, '--json')).json)
  const taken = await run('accounts', 'create', '--email', 'ANN@example.com', '--json')
  assert.deepEqual(
    [taken.code, taken.json],
    [1, { error: `${accountId} has this e-mail; choose another one`, code: 'email_taken', accountId }],
  )
})

test('accounts are listed with their e-mails, newest first and in pages', async (t) => {
  const { run, pool } = await shell(t)
  assert.match((await run('accounts', 'list')).out, /^no accounts; "accounts create" makes one\n/)
  const ids: string[] = []
  for (const email of ['ann@example.com', 'bob@example.com', 'eve@example.com'])
    ids.unshift((await run('accounts', 'create', '--email', email, '--json')).json.accountId)
  const [eve, bob, ann] = ids
  await run('accounts', 'block', bob!)
  // A command that was killed left an e-mail that no account has yet.
  await claimEmail(pool, 'cut@example.com', newId<AccountId>('acc'))
  const { json } = await run('accounts', 'list', '--json')
  assert.deepEqual(
    json.accounts.map(({ createdAt, ...account }: { createdAt: string }) => {
      assert.ok(Date.parse(createdAt) > 0)
      return account
    }),
    [
      { accountId: eve, email: 'eve@example.com', reseller: false, blocked: false },
      { accountId: bob, email: 'bob@example.com', reseller: false, blocked: true },
      { accountId: ann, email: 'ann@example.com', reseller: false, blocked: false },
    ],
  )
  const page = (await run('accounts', 'list', '--limit', '1', '--offset', '3', '--json')).json
  assert.deepEqual(
    page.accounts.map((account: { accountId: string }) => account.accountId),
    [ann],
  )
  const [head, first] = (await run('accounts', 'list')).out.split('\n')
  assert.match(head!, /^ACCOUNT +E-MAIL +RESELLER +STATE +SINCE$/)
  assert.equal(first!.indexOf('eve@example.com'), head!.indexOf('E-MAIL'))
})

test('an account without an e-mail is listed once the read tables have it', async (t) => {
  const { run, pool } = await projectedShell(t)
  const { accountId } = (await run('accounts', 'create', '--email', 'ann@example.com', '--json')).json
  await pool.query('delete from vault.accounts')
  await until(async () => {
    const { accounts } = (await run('accounts', 'list', '--json')).json
    return accounts.length === 1 && accounts[0].accountId === accountId && accounts[0].email === null
  })
})

test('an unknown id is not_found and the message says what to do', async (t) => {
  const { run } = await shell(t)
  for (const args of [
    ['accounts', 'show', 'acc_none'],
    ['accounts', 'show', 'unknown@example.com'],
    ['accounts', 'block', 'acc_none'],
    ['keys', 'revoke', 'key_none'],
    ['keys', 'roll', 'key_none', '--overlap', '24h'],
    ['keys', 'create', '--account', 'acc_none', '--scopes', 'buy'],
    ['wallet', 'credit', '--kind=payment', '--account', 'acc_none', '--cents', '1', '--reference', 'r'],
  ]) {
    const refused = await run(...args, '--json')
    assert.deepEqual([refused.code, refused.json.code], [2, 'not_found'])
    assert.match(refused.err, /accounts create|keys list/)
  }
})

test('wrong use exits with 2 before anything is opened', async (t) => {
  const { run, log } = await shell(t)
  for (const args of [
    ['accounts', 'create'],
    ['accounts', 'create', '--email', 'no address'],
    ['keys', 'create', '--account', 'a', '--scopes', 'all'],
    ['keys', 'create', '--account', 'a', '--scopes', 'buy', '--daily-cap-cents', '-1'],
    ['keys', 'create', '--account', 'a', '--scopes', 'buy', '--name', ''],
    ['keys', 'create', '--account', 'a', '--scopes', 'buy', '--networks', '203.0.113.0/33'],
    ['keys', 'create', '--account', 'a', '--scopes', 'buy', '--networks', 'example.com'],
    ['keys', 'create', '--account', 'a', '--scopes', 'buy', '--networks', '::ffff:203.0.113.0/120'],
    ['keys', 'create', '--account', 'a', '--scopes', 'buy', '--networks', ','],
    ['keys', 'create', '--account', 'a', '--scopes', 'buy', '--expires-at', 'tomorrow'],
    ['keys', 'create', '--account', 'a', '--scopes', 'buy', '--expires-in-days', '0'],
    [
      'keys',
      'create',
      '--account',
      'a',
      '--scopes',
      'buy',
      '--expires-in-days',
      '1',
      '--expires-at',
      '2027-01-01T00:00:00Z',
    ],
    ['keys', 'roll', 'key_a'],
    ['keys', 'roll', 'key_a', '--overlap', '24'],
    ['keys', 'roll', 'key_a', '--overlap', '91d'],
    ['wallet', 'credit', '--kind=payment', '--account', 'a', '--cents', '0', '--reference', 'r'],
    ['wallet', 'credit', '--kind=payment', '--account', 'a', '--cents', '1.5', '--reference', 'r'],
    ['wallet', 'credit', '--kind=payment', '--account', 'a', '--cents', '1', '--reference', ''],
    ['wallet', 'adjust', '--account', 'a', '--cents', '0', '--reference', 'r'],
    ['wallet', 'adjust', '--account', 'a', '--cents', '1', '--reference', 'r', '--reason', 'fun'],
    ['wallet', 'adjust', '--account', 'a', '--cents', '-1', '--reference', 'r', '--reason', 'chargeback'],
    ['wallet', 'adjust', '--account', 'a', '--cents', '-1', '--reference', 'r', '--gateway', 'stripe'],
  ])
    assert.equal((await run(...args)).code, 2, args.join(' '))
  const chargeback = ['--account', 'a', '--cents', '-1', '--reference', 'r', '--reason', 'chargeback']
  const unknown = await run('wallet', 'adjust', ...chargeback, '--gateway', 'strip')
  assert.equal(unknown.code, 2)
  assert.match(unknown.err, /Allowed choices are stripe, btcpay, nowpayments, manual/)
  assert.equal(await log.head(), 0)
})

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { runCli } from '../../../src/app/cli-program.ts'
import { commands as accountCommands } from '../../../src/features/accounts/commands.ts'
import { commands as resellerCommands } from '../../../src/features/resellers/commands.ts'
import type { CliContext } from '../../../src/platform/cli/cli-context.ts'
import { createKysely } from '../../../src/platform/postgres/kysely.ts'
import { masterKey } from '../../../src/platform/vault/keys.ts'
import { cause, serviceWorld } from '../accounts/world.ts'

const shell = async (t: TestContext) => {
  const world = await serviceWorld(t)
  const keys = { master: masterKey(randomBytes(32)) }
  const run = async (...args: readonly string[]) => {
    const out: string[] = []
    const err: string[] = []
    const code = await runCli([...args, '--json'], [...accountCommands, ...resellerCommands], {
      out: (text) => out.push(text),
      err: (text) => err.push(text),
      open: async () => ({
        context: {
          ...cause,
          keys,
          pool: world.pool,
          db: createKysely(world.pool),
          runner: world.runner,
        } as unknown as CliContext,
        close: async () => undefined,
      }),
    })
    const text = out.join('\n')
    return { code, err: err.join('\n'), json: text === '' ? null : JSON.parse(text) }
  }
  const account = async (name: string, ...more: string[]): Promise<string> =>
    (await run('accounts', 'create', '--email', `${name}@example.com`, ...more)).json.accountId
  return { ...world, run, account }
}

const movement = (account: string, customer: string, cents: number, reference: string) => [
  '--account',
  account,
  '--customer',
  customer,
  '--cents',
  String(cents),
  '--reference',
  reference,
]

test('a customer is created by its first credit, and a reference credits it once', async (t) => {
  const { run, account } = await shell(t)
  const reseller = await account('shop', '--reseller')
  const first = await run('customers', 'credit', ...movement(reseller, 'alice', 2_500, 'cash'))
  assert.equal(first.code, 0, first.err)
  const { customerId } = first.json
  assert.match(customerId, /^cus_[0-9a-f]{32}$/)
  assert.deepEqual(first.json, {
    accountId: reseller,
    customerId,
    reference: 'cash',
    amountCents: 2_500,
    creditCents: 2_500,
    currency: 'USD',
  })
  const again = await run('customers', 'credit', ...movement(reseller, 'alice', 2_500, 'cash'))
  assert.deepEqual([again.code, again.json.code], [1, 'already_applied'])
  const byId = ['--account', reseller, '--id', customerId, '--cents', '-600', '--reference', 'fix']
  const adjusted = await run('customers', 'adjust', ...byId)
  assert.deepEqual([adjusted.json.amountCents, adjusted.json.creditCents], [-600, 1_900])
  const { json } = await run('customers', 'list', '--account', reseller)
  assert.deepEqual(
    json.customers.map(({ customer, creditCents, owedCents }: Record<string, unknown>) => [
      customer,
      creditCents,
      owedCents,
    ]),
    [['alice', 1_900, 0]],
  )
})

test("blanks around a customer's external id are removed, as in a header", async (t) => {
  const { run, account } = await shell(t)
  const reseller = await account('shop', '--reseller')
  const first = await run('customers', 'credit', ...movement(reseller, ' alice\t', 100, 'one'))
  const second = await run('customers', 'credit', ...movement(reseller, 'alice', 100, 'two'))
  assert.equal(second.json.customerId, first.json.customerId)
  const { json } = await run('customers', 'list', '--account', reseller)
  assert.deepEqual([json.total, json.customers[0].customer], [1, 'alice'])
})

test('customers of the same name under two resellers are two, with separate money', async (t) => {
  const { run, account } = await shell(t)
  const [one, two] = [await account('one', '--reseller'), await account('two', '--reseller')]
  const first = await run('customers', 'credit', ...movement(one, 'alice', 100, 'same'))
  const second = await run('customers', 'credit', ...movement(two, 'alice', 700, 'same'))
  assert.equal(second.code, 0, second.err)
  assert.notEqual(first.json.customerId, second.json.customerId)
  const foreign = ['--account', two, '--id', first.json.customerId, '--cents', '5', '--reference', 'x']
  assert.equal((await run('customers', 'credit', ...foreign)).code, 2)
  for (const [reseller, cents] of [
    [one, 100],
    [two, 700],
  ] as const) {
    const { json } = await run('customers', 'list', '--account', reseller)
    assert.deepEqual(
      json.customers.map(({ creditCents }: { creditCents: number }) => creditCents),
      [cents],
    )
  }
})

test('a chargeback above the credit becomes a debt, and the next payment pays it first', async (t) => {
  const { run, account } = await shell(t)
  const reseller = await account('shop', '--reseller')
  await run('customers', 'credit', ...movement(reseller, 'bob', 300, 'cash'))
  const chargeback = ['--reason', 'chargeback', '--gateway', 'stripe']
  const taken = await run('customers', 'adjust', ...movement(reseller, 'bob', -500, 'cb'), ...chargeback)
  assert.deepEqual([taken.code, taken.json.creditCents], [0, 0])
  const paid = await run('customers', 'credit', ...movement(reseller, 'bob', 250, 'more'))
  assert.equal(paid.json.creditCents, 50)
})

test('wrong use exits with 2, and a correction below zero is refused', async (t) => {
  const { run, account } = await shell(t)
  const reseller = await account('shop', '--reseller')
  const buyer = await account('buyer')
  const wrong = [
    movement(buyer, 'alice', 100, 'r'),
    movement('acc_unknown', 'alice', 100, 'r'),
    movement(reseller, '', 100, 'r'),
    movement(reseller, '  ', 100, 'r'),
    movement(reseller, 'a\nb', 100, 'r'),
    [...movement(reseller, 'alice', 100, 'r'), '--id', 'cus_1'],
    movement(reseller, 'alice', 0, 'r'),
    movement(reseller, 'alice', 100, ' r'),
  ]
  for (const args of wrong) assert.equal((await run('customers', 'credit', ...args)).code, 2, args.join(' '))
  const odd = [...movement(reseller, 'alice', -5, 'r'), '--reason', 'chargeback']
  assert.equal((await run('customers', 'adjust', ...odd)).code, 2)
  const short = await run('customers', 'adjust', ...movement(reseller, 'alice', -5, 'r'))
  assert.deepEqual([short.code, short.json.code], [1, 'insufficient_balance'])
  assert.match(short.err, /the customer has \$0\.00/)
  const { json } = await run('customers', 'list', '--account', reseller)
  assert.equal(json.total, 0, 'what was refused leaves no customer behind')
})

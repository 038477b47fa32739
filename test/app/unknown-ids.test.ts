import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testApp } from '../support/test-app.ts'

const account = ['--account', 'acc_none'] as const
const by = ['--cents', '1', '--reference', 'r'] as const

const commands: readonly (readonly string[])[] = [
  ['accounts', 'show', 'acc_none'],
  ['accounts', 'block', 'acc_none'],
  ['accounts', 'unblock', 'acc_none'],
  ['keys', 'create', ...account, '--scopes', 'buy'],
  ['keys', 'list', ...account],
  ['keys', 'revoke', 'key_none'],
  ['wallet', 'credit', ...account, ...by, '--kind', 'payment'],
  ['wallet', 'credit', ...account, ...by, '--kind', 'goodwill'],
  ['wallet', 'adjust', ...account, ...by, '--reason', 'goodwill'],
  ['customers', 'adjust', ...account, '--customer', 'ann', ...by, '--reason', 'goodwill'],
  ['customers', 'credit', ...account, '--customer', 'ann', ...by],
  ['reseller', 'show', 'acc_none'],
  ['reseller', 'set', ...account, '--merchant-name', 'Acme'],
  ['reseller', 'retail', ...account, '--product', 'residential-premium', '--price', '7.00'],
  ['reseller', 'gateway', ...account, '--rail', 'card', '--remove'],
  ['orders', 'show', 'ord_none'],
  ...(['customers', 'plans', 'proxies', 'subscriptions', 'deposits', 'webhooks'] as const).flatMap(
    (things) => [
      [things, 'list', ...account],
      [things, 'show', 'none'],
    ],
  ),
  ['orders', 'refund', '--order', 'ord_none'],
  ['plans', 'meter', '--plan', 'pln_none', '--bytes', '1'],
  ['traffic-budgets', 'list', ...account],
  ['traffic-budgets', 'set', ...account, '--plan', 'pln_none', '--period', 'day', '--limit-bytes', '1000000'],
  ['traffic-budgets', 'reset', 'tbg_none'],
  ['traffic-budgets', 'remove', 'tbg_none'],
  ['stock', 'add', '--product', 'none', '--country', 'USA', '--addresses', '203.0.113.7'],
  ['catalog', 'set-state', 'none', 'active'],
  ['notices', 'expire', 'ntc_none'],
  ['finance', 'token', 'revoke', 'fin_none'],
  ['ledger', 'account', 'acc_none'],
  ['ledger', 'statement', 'acc_none'],
  ['ledger', 'explain', 'ord_none'],
  ['ledger', 'explain', 'acc_none'],
  ['ledger', 'replay', '--account', 'acc_none'],
  ['ledger', 'trial-balance', '--book', 'reseller:acc_none'],
  ['ledger', 'export', '--format', 'csv', '--book', 'reseller:acc_none', '--out', '/dev/null'],
]

test('every command that is given an unknown id exits with 2, says so, and writes nothing', async (t) => {
  const { core, cli } = await testApp(t, { own: true })
  const head = await core.log.head()
  for (const args of commands) {
    const { code, err, json } = await cli(...args)
    assert.equal(code, 2, `${args.join(' ')}: ${err}`)
    assert.equal(`error: ${json?.error}`, err, args.join(' '))
  }
  assert.equal(await core.log.head(), head)
})

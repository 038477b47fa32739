import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import type { AccountId } from '../../src/kernel/ids.ts'
import type { Step, WalletCommand } from '../domain/ledger/support.ts'
import { exportTo, writeBooks } from '../features/exports/books.ts'
import { demoKeys } from '../support/demo-env.ts'
import { dataDirectory } from '../support/farebox.ts'
import { createMemoryLog } from '../support/memory-log.ts'
import { pageOf, pageShell } from '../support/page-shell.ts'
import { testDatabase } from '../support/postgres.ts'

const hourMs = 3_600_000

const after = (afterMs: number, command: WalletCommand): Step => ({ afterMs, command })

const scrape = (holdId: string, afterMs = 0): readonly Step[] => [
  after(afterMs, { kind: 'hold', holdId, amountMicros: 3_000 }),
  after(0, { kind: 'capture', holdId }),
]

/** On the first day a deposit, an order and two scrapes of 0.3 cents; on the second day four scrapes. */
const steps: readonly Step[] = [
  after(hourMs, { kind: 'credit', source: 'deposit', reference: '1', amountMicros: 25_000_000 }),
  after(hourMs, { kind: 'debit', orderId: 'ord_1', keyId: null, amountCents: 1_200, capCents: null }),
  ...scrape('one'),
  ...scrape('two'),
  ...scrape('three', 24 * hourMs),
  ...['four', 'five', 'six'].flatMap((holdId) => scrape(holdId)),
]

test('the daily journals of the page on Xero and QuickBooks are written as printed', async (t) => {
  const [{ url }, directory] = await Promise.all([testDatabase(t), dataDirectory(t)])
  const log = createMemoryLog()
  await writeBooks(log, [{ accountId: 'acc_1a' as AccountId, reseller: false, steps }])
  await exportTo(log, join(directory, 'log.jsonl'), 'jsonl')

  const page = pageOf('docs/finance/xero-and-quickbooks.md')
  const blocks = [...page.matchAll(/^```(csv|sh)\n([\s\S]*?)^```$/gm)].map(([, , block = '']) => block)
  const [xeroAccounts = '', quickbooksAccounts = '', script = '', xero = '', quickbooks = ''] = blocks
  await writeFile(join(directory, 'xero-accounts.csv'), xeroAccounts)
  await writeFile(join(directory, 'quickbooks-accounts.csv'), quickbooksAccounts)
  const env = { FAREBOX_DATA: directory, FAREBOX_DEMO: 'off', DATABASE_URL: url, ...demoKeys() }
  const shell = await pageShell(t, { env, cwd: directory })
  await shell(`bin/farebox ledger import log.jsonl\n${script}`)
  for (const [name, expected] of [
    ['xero.csv', xero],
    ['quickbooks.csv', quickbooks],
  ] as const) {
    const text = await readFile(join(directory, name), 'utf8')
    assert.equal(text.replace('\ufeff', '').replaceAll('\r\n', '\n'), expected)
  }
})

import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { demoKeys } from '../support/demo-env.ts'
import { dataDirectory } from '../support/farebox.ts'
import { blocksOf, pageOf, pageShell } from '../support/page-shell.ts'
import { testDatabase } from '../support/postgres.ts'

/** The input of the page's commands. */
const files = {
  'balance.csv': `balance_transaction_id,created_utc,reporting_category,source_id,currency,gross,fee,net,payment_metadata[deposit_id]
txn_1,2026-10-05 10:00:00,dispute,dp_1,usd,-5.00,15.00,-20.00,
txn_0,2026-10-05 11:00:00,dispute_reversal,dp_0,usd,100.00,0.00,100.00,
`,
  'payouts.csv': `payout_id,effective_at_utc,currency,balance_transaction_id,gross,fee,net,reporting_category
po_1,2026-10-06 00:00:00,usd,txn_2,-40.00,0.00,-40.00,payout
`,
  'invoices.csv': `InvoiceId,InvoiceCurrency,InvoiceStatus,PaymentReceivedDate,PaymentId,PaymentCurrency,PaymentAmount,PaymentInvoiceAmount
inv_1,USD,Expired,,,,,
`,
  'other.csv': `Reference,Date,Type,Amount,Payment
1,2026-10-05,chargeback,-5.00,stripe dp_1
txn_2,2026-10-06,withdrawal,-40.00,
`,
}

test('the commands of the statements page run as printed', async (t) => {
  const [{ url }, directory] = await Promise.all([testDatabase(t), dataDirectory(t)])
  const env = { FAREBOX_DATA: directory, DATABASE_URL: url, ...demoKeys() }
  const sh = await pageShell(t, { env, cwd: directory })
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text)

  const made = await sh('bin/farebox accounts create --email anna@example.com --json')
  const account = `--account ${JSON.parse(made.stdout).accountId}`
  await sh(`bin/farebox wallet credit ${account} --cents 2500 --kind payment --reference wire
    bin/farebox wallet adjust ${account} --cents 10000 --reason chargeback --gateway stripe --reference 'stripe dp_0'
    bin/farebox wallet adjust ${account} --cents -500 --reason chargeback --gateway stripe --reference 'stripe dp_1'
    bin/farebox wallet adjust ${account} --cents -100 --reason chargeback --gateway btcpay --reference other`)

  const [script = ''] = blocksOf(pageOf('docs/finance/reconcile.md'))
  const { stdout } = await sh(script)
  assert.equal(stdout.match(/^everything that was compared agrees$/gm)?.length, 2)
  assert.equal(stdout.match(/^everything agrees$/gm)?.length, 1)
  assert.equal(stdout.match(/"agrees":\s?true/g)?.length, 1)
  assert.equal(stdout.match(/^matched +dispute +USD +1 +-5\.00/gm)?.length, 3)
  assert.match(stdout, /fees and payouts: 2 lines to book, 2 in the books, 2 of them booked now/)
  // $100.00 came back, $5.00 were taken back, $15.00 were a fee and $40.00 were paid out.
  assert.match(stdout, /^assets:gateway:stripe +40\.00$/m)

  await writeFile(
    join(directory, 'balance.csv'),
    files['balance.csv'].replace('-5.00,15.00,-20.00', '-6.00,15.00,-21.00'),
  )
  const differs = await sh(script).then(
    () => null,
    (error) => error,
  )
  assert.equal(differs?.code, 1)
  assert.match(differs.stdout, /^other amount +dispute +-6\.00 +-5\.00/m)
})

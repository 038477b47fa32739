import assert from 'node:assert/strict'
import { test } from 'node:test'
import { btcpay } from '../../../src/features/reconciliation/btcpay-statement.ts'
import { nowpayments } from '../../../src/features/reconciliation/nowpayments-statement.ts'
import { openStatement } from '../../../src/features/reconciliation/reconcile.ts'
import type { StatementFormat, StatementLine } from '../../../src/features/reconciliation/statement-format.ts'
import { type Declared, declaredFormat } from '../../../src/features/reconciliation/statement-format.ts'
import { stripe } from '../../../src/features/reconciliation/stripe-statement.ts'

async function* bytes(text: string | Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  const all = typeof text === 'string' ? new TextEncoder().encode(text) : text
  for (let at = 0; at < all.length; at += size) yield all.subarray(at, at + size)
}

const read = async (format: StatementFormat, text: string | Uint8Array, separator = ',', size = 7) => {
  const { layout, lines } = await openStatement(bytes(text, size), format, separator)
  const found: StatementLine[] = []
  for await (const line of lines) found.push(line)
  return { layout: layout.name, lines: found }
}

/** A line as a short text, for comparisons. */
const short = (line: StatementLine): string =>
  [
    line.line,
    line.kind,
    line.key ?? '-',
    line.at.slice(0, 16),
    line.currency,
    line.amountMicros,
    line.unitMicros,
    line.feeMicros,
    line.coins ? `${line.coins.amount} ${line.coins.currency}` : '-',
    line.final ? 'final' : 'open',
  ].join(' ')

const stripeHeading =
  'balance_transaction_id,created_utc,currency,gross,fee,net,reporting_category,source_id,description,payment_metadata[deposit_id]'
const payoutHeading =
  'payout_id,effective_at_utc,effective_at,currency,balance_transaction_id,gross,fee,net,reporting_category'

const invoicesHeading =
  'InvoiceCreatedDate,InvoiceId,InvoiceCurrency,InvoiceDue,InvoicePrice,InvoiceFullStatus,InvoiceStatus,PaymentReceivedDate,PaymentId,PaymentRate,PaymentMethodId,PaymentCurrency,PaymentAmount,PaymentMethodFee,PaymentInvoiceAmount,orderId'
const declared = declaredFormat({
  columns: { id: 'Ref', at: 'Booked on', amount: 'Amount', fee: 'Fee', kind: 'Type', deposit: 'Memo' },
  words: { sale: 'payment', out: 'payout' },
})
const nowHeading =
  'Payment ID,Order ID,Payment status,Price amount,Price currency,Pay amount,Pay currency,Actually paid,Created at'

const readable: readonly (readonly [string, StatementFormat, string, string, readonly string[]])[] = [
  [
    'Stripe: what moved the balance, with its fees',
    stripe,
    [
      `\ufeff${stripeHeading}`,
      'txn_1,2026-11-02 10:00:00,usd,25.00,1.03,23.97,charge,ch_1,"Shop: ""credit"", now",dep_1',
      'txn_2,2026-11-03 10:00:00,usd,-25.00,15.00,-40.00,dispute,dp_1,"two\nlines",dep_1',
      'txn_3,2026-11-04 10:00:00,usd,25.00,0.00,25.00,dispute_reversal,dp_1,,dep_1',
      '',
      'txn_4,2026-11-05,usd,-0.30,0.00,-0.30,fee,,Radar,',
      'txn_5,2026-11-05 10:00:00.123,EUR,7,0,7,charge,ch_2,,',
      'txn_6,2026-11-06 00:00,usd,-1.00,0.00,-1.00,risk_reserved_funds,,,',
    ].join('\r\n'),
    'balance change from activity (itemised)',
    [
      '2 payment deposit:dep_1 2026-11-02T10:00 usd 25000000 1 1030000 - final',
      '3 dispute payment:stripe dp_1 2026-11-03T10:00 usd -25000000 1 15000000 - final',
      '5 dispute_reversal payment:stripe dp_1 2026-11-04T10:00 usd 25000000 1 0 - final',
      '7 fee - 2026-11-05T00:00 usd -300000 1 0 - final',
      '8 payment - 2026-11-05T10:00 eur 7000000 1 0 - final',
      '9 other - 2026-11-06T00:00 usd -1000000 1 0 - final',
    ],
  ],
  [
    'Stripe: payouts, by either sign',
    stripe,
    [
      payoutHeading,
      'po_1,2026-11-09 00:00:00,2026-11-08 19:00:00,usd,txn_7,-20.00,0.25,-20.25,payout',
      'po_2,2026-11-10 00:00:00,2026-11-09 19:00:00,usd,txn_8,20.00,0.00,20.00,payout',
      'po_2,2026-11-11 00:00:00,2026-11-10 19:00:00,usd,txn_9,20.00,0.00,20.00,payout_reversal',
    ].join('\n'),
    'payouts (itemised)',
    [
      '2 payout - 2026-11-09T00:00 usd -20000000 1 250000 - final',
      '3 payout - 2026-11-10T00:00 usd -20000000 1 0 - final',
      '4 payout_reversal - 2026-11-11T00:00 usd 20000000 1 0 - final',
    ],
  ],
  [
    'BTCPay: invoices, whose later lines leave out what the first said',
    btcpay,
    [
      invoicesHeading,
      '2026-11-01T00:00:00+00:00,inv_1,USD,0,25,Settled,Settled,2026-11-01T02:00:00+02:00,tx-0,60000,BTC-CHAIN,BTC,0.0002,0,12.00,dep_1',
      '2026-11-01T00:00:00+00:00,inv_1,,,,,,2026-11-01T03:00:00+00:00,tx-1,60000.5,BTC-CHAIN,BTC,0.00021666,0,12.9996083333,',
      '2026-11-02T00:00:00+00:00,inv_2,USD,5,5,Expired,Expired,,,,,,,,,',
      '2026-11-03T00:00:00+00:00,inv_3,USD,0,5,Processing,Processing,2026-11-03T03:00:00Z,tx-2,1,BTC-CHAIN,BTC,5,0,5.5,',
    ].join('\n'),
    'Invoices',
    [
      '2 payment payment:tx-0 2026-11-01T00:00 usd 12000000 10000 0 0.0002 btc final',
      '3 payment payment:tx-1 2026-11-01T03:00 usd 12999608 1 0 0.00021666 btc final',
      '5 payment payment:tx-2 2026-11-03T03:00 usd 5500000 10000 0 5 btc open',
    ],
  ],
  [
    'BTCPay: the legacy export',
    btcpay,
    [
      'ReceivedDate,StoreId,OrderId,InvoiceId,PaymentId,CryptoCode,Paid,NetworkFee,PaidCurrency,InvoiceCurrency,InvoiceStatus,Accounted',
      '2026-11-01T02:00:00Z,s,dep_1,inv_1,tx-0,BTC,2E-4,0,12.00,USD,settled,true',
      '2026-11-01T02:00:00Z,s,dep_1,inv_1,tx-1,BTC,0.0002,0,12.00,USD,settled,False',
      ',s,dep_2,inv_2,,,,,,USD,expired,',
    ].join('\n'),
    'Legacy Invoice Export',
    [
      '2 payment payment:tx-0 2026-11-01T02:00 usd 12000000 10000 0 0.0002 btc final',
      '3 payment payment:tx-1 2026-11-01T02:00 usd 12000000 10000 0 0.0002 btc open',
    ],
  ],
  [
    'BTCPay: payments, which have no ids',
    btcpay,
    [
      'Date,InvoiceId,OrderId,Category,PaymentMethodId,Confirmed,Address,PaymentCurrency,PaymentAmount,PaymentMethodFee,LightningAddress,InvoiceCurrency,InvoiceCurrencyAmount,Rate',
      '2026-11-01T02:00:00Z,inv_1,dep_1,On-Chain,BTC-CHAIN,true,bc1,BTC,0.0002,0,,USD,12.005,60025',
      '2026-11-01T02:00:00Z,inv_9,,On-Chain,BTC-CHAIN,false,bc1,BTC,0.0002,0,,USD,12,60000',
    ].join('\n'),
    'Payments',
    [
      '2 payment deposit:dep_1 2026-11-01T02:00 usd 12005000 1000 0 0.0002 btc final',
      '3 payment - 2026-11-01T02:00 usd 12000000 10000 0 0.0002 btc open',
    ],
  ],
  [
    'NOWPayments: the price times what was paid of what was invoiced',
    nowpayments,
    [
      nowHeading,
      '5077125051,dep_1,finished,25,usd,0.0004,btc,0.0004,2026-11-01T02:00:00.000Z',
      '5077125052,dep_2,Partially paid,25,usd,3,usdttrc20,1,2026-11-01T02:00:00.000Z',
      '5077125053,dep_3,waiting,25,usd,0.0004,btc,,2026-11-01T02:00:00.000Z',
    ].join('\n'),
    'payments',
    [
      '2 payment payment:5077125051 2026-11-01T02:00 usd 25000000 1 0 0.0004 btc final',
      '3 payment payment:5077125052 2026-11-01T02:00 usd 8333333 1 0 1 usdttrc20 final',
      '4 payment payment:5077125053 2026-11-01T02:00 usd 0 1 0 - open',
    ],
  ],
  [
    'any other file, by what was declared',
    declared,
    [
      'Ref,Booked on,Type,Memo,Amount,Fee',
      'a1,2026-11-01,sale,dep_1,10.5,0.2',
      'a2,2026-11-02,out,,-9,',
    ].join('\n'),
    'declared columns',
    [
      '2 payment deposit:dep_1 2026-11-01T00:00 usd 10500000 1 200000 - final',
      '3 payout - 2026-11-02T00:00 usd -9000000 1 0 - final',
    ],
  ],
]

for (const [name, format, text, layout, lines] of readable)
  test(name, async () => {
    for (const size of [1, 3, 100_000]) {
      const found = await read(format, text, ',', size)
      assert.equal(found.layout, layout)
      assert.deepEqual(found.lines.map(short), lines)
    }
  })

test('cells may be separated by semicolons or tabs', async () => {
  for (const separator of [';', '\t']) {
    const { lines } = await read(
      declared,
      ['Ref,Booked on,Type,Memo,Amount,Fee', 'a1,2026-11-01,sale,dep_1,10.5,0.2']
        .join('\n')
        .replaceAll(',', separator),
      separator,
    )
    assert.equal(lines.length, 1)
  }
})

const charge = (cells: string): string => `${stripeHeading}\n${cells}`
const refused: readonly (readonly [string, StatementFormat, string | Uint8Array, RegExp])[] = [
  ['an empty file', stripe, '', /^line 1: the file is empty; its first line names the columns$/],
  [
    'the heading of something else',
    stripe,
    'id,amount\n1,2',
    /^line 1: this is the heading of no report of stripe that is read: "payouts \(itemised\)" lacks payout_id, .*; "balance change .*payment_metadata\[deposit_id\], created_utc or created$/,
  ],
  [
    'a column of two that is missing',
    stripe,
    stripeHeading.replace(',fee', ''),
    /"balance change from activity \(itemised\)" lacks fee$/,
  ],
  [
    'a heading with a column twice',
    stripe,
    `${stripeHeading},Gross`,
    /^line 1, column "gross": the heading has it twice$/,
  ],
  [
    'an amount with a comma',
    stripe,
    charge('txn_1,2026-11-02,usd,"25,00",1.03,23.97,charge,ch_1,,dep_1'),
    /^line 2, column "gross": "25,00" is not it; an amount is digits with a point, such as 12\.50 or -3$/,
  ],
  [
    'an amount finer than a micro-dollar',
    stripe,
    charge('txn_1,2026-11-02,usd,25.0000001,0,25.0000001,charge,ch_1,,dep_1'),
    /^line 2, column "gross": .* with six decimals at most$/,
  ],
  [
    'an amount past all',
    stripe,
    charge('txn_1,2026-11-02,usd,1e30,0,1e30,charge,ch_1,,dep_1'),
    /^line 2, column "gross": .* less than 900,000,000,000$/,
  ],
  [
    'a converted amount past all',
    btcpay,
    `${invoicesHeading}\n2026-11-01,inv_1,USD,0,25,Settled,Settled,2026-11-01,tx-0,1,B,BTC,1,0,1e40,`,
    /^line 2, column "PaymentInvoiceAmount": .* less than 900,000,000,000$/,
  ],
  [
    'a net that does not add up',
    stripe,
    charge('txn_1,2026-11-02,usd,25.00,1.03,23.98,charge,ch_1,,dep_1'),
    /^line 2, column "net": "23\.98" is not it; it is gross less fee$/,
  ],
  [
    'no id',
    stripe,
    charge(',2026-11-02,usd,25.00,1.03,23.97,charge,ch_1,,dep_1'),
    /^line 2, column "balance_transaction_id": it is empty; an id is 1 to 200 printable characters$/,
  ],
  [
    'a dispute without its id',
    stripe,
    charge('txn_1,2026-11-02,usd,-25,0,-25,dispute,,,dep_1'),
    /^line 2, column "source_id": it is empty/,
  ],
  [
    'an id that a terminal would act on',
    stripe,
    charge('txn\u001b[2J,2026-11-02,usd,25,0,25,charge,ch_1,,dep_1'),
    /^line 2, column "balance_transaction_id": "txn\\u001b\[2J" is not it/,
  ],
  [
    'a day that no month has',
    stripe,
    charge('txn_1,2026-02-30,usd,25,0,25,charge,ch_1,,dep_1'),
    /^line 2, column "created_utc": "2026-02-30" is not it; a time is written 2026-11-21, /,
  ],
  [
    'a time of America',
    stripe,
    charge('txn_1,11/02/2026 10:00,usd,25,0,25,charge,ch_1,,dep_1'),
    /^line 2, column "created_utc": "11\/02\/2026 10:00" is not it/,
  ],
  [
    'a currency that is none',
    stripe,
    charge('txn_1,2026-11-02,$,25,0,25,charge,ch_1,,dep_1'),
    /^line 2, column "currency": "\$" is not it; a currency is 2 to 20 letters and digits, e\.g\. usd$/,
  ],
  [
    'a line that is short',
    stripe,
    charge('txn_1,2026-11-02,usd,25,0,25,charge\n'),
    /^line 2: 7 cells, where the heading has 10$/,
  ],
  [
    'a quote inside a cell',
    stripe,
    charge('txn_1,2026-11-02,usd,25,0,25,charge,ch_1,a "b",dep_1'),
    /^line 2: a quote out of place/,
  ],
  [
    'a text after a quote',
    stripe,
    charge('txn_1,2026-11-02,usd,25,0,25,charge,ch_1,"a" b,dep_1'),
    /^line 2: a quote out of place/,
  ],
  [
    'a file that is cut off in quotes',
    stripe,
    charge('txn_1,2026-11-02,usd,25,0,25,charge,ch_1,"a\n\nb'),
    /^line 2: a quote that nothing ends: the file is cut off$/,
  ],
  ['a NUL', stripe, charge('txn_1\0,'), /^line 2: a NUL character/],
  [
    'a carriage return alone',
    stripe,
    charge('txn_1\r,2026-11-02'),
    /^line 2: a carriage return inside a line; lines end with LF or CRLF$/,
  ],
  [
    'no UTF-8',
    stripe,
    Buffer.concat([Buffer.from(`${stripeHeading}\n`), Buffer.from([0x74, 0xff, 0xfe])]),
    /^line 2: this is no UTF-8 text/,
  ],
  ['UTF-16', stripe, Buffer.from(`\ufeff${stripeHeading}\n`, 'utf16le'), /^line 1: this is no UTF-8 text/],
  ['a picture', stripe, Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a]), /^line 1: this is no UTF-8 text/],
  [
    'a record without end',
    stripe,
    charge('a'.repeat(1_000_100)),
    /^line 2: more than 1000000 characters in one record$/,
  ],
  ['too many cells', stripe, charge(','.repeat(3_000)), /^line 2: more than 2000 cells$/],
  [
    'an answer that is neither true nor false',
    btcpay,
    'Date,InvoiceId,OrderId,PaymentMethodId,Confirmed,PaymentCurrency,PaymentAmount,InvoiceCurrency,InvoiceCurrencyAmount\n2026-11-01,i,dep_1,BTC,maybe,BTC,1,USD,1',
    /^line 2, column "Confirmed": "maybe" is not it; it is true or false$/,
  ],
  [
    'coins that are no number',
    btcpay,
    `${invoicesHeading}\n2026-11-01,inv_1,USD,0,25,Settled,Settled,2026-11-01,tx-0,1,B,BTC,many,0,25,`,
    /^line 2, column "PaymentAmount": "many" is not it; an amount of coins is digits with a point, such as 0\.00012$/,
  ],
  [
    'a status that is not known',
    nowpayments,
    `${nowHeading}\n5,dep_1,done,25,usd,1,btc,1,2026-11-01`,
    /^line 2, column "payment_status": "done" is not it; it is one of waiting, confirming, .*expired$/,
  ],
  [
    'less than nothing that was paid',
    nowpayments,
    `${nowHeading}\n5,dep_1,finished,25,usd,1,btc,-1,2026-11-01`,
    /^line 2, column "actually_paid": "-1" is not it; what was paid is 0 or more/,
  ],
  [
    'a word that was not declared',
    declared,
    'Ref,Booked on,Type,Memo,Amount,Fee\na1,2026-11-01,toString,dep_1,10.5,0.2',
    /^line 2, column "Type": "toString" is not it; declared are sale, out; declare more with --word WORD=KIND$/,
  ],
  [
    'a declared column that is not there',
    declared,
    'Ref,Type\n',
    /"declared columns" lacks Booked on, Amount, Fee, Memo$/,
  ],
]

for (const [name, format, text, message] of refused)
  test(`refused: ${name}`, async () => {
    for (const size of text.length > 10_000 ? [2_000_000] : [1, 64, 2_000_000])
      await assert.rejects(read(format, text, ',', size), { name: 'FileProblem', message })
  })

test('a declaration needs at least the kind, the time and the amount of a line', async () => {
  const { missingOf } = await import('../../../src/features/reconciliation/statement-format.ts')
  const at = { at: 'Date', amount: 'Amount' }
  const cases: readonly (readonly [Declared['columns'], RegExp | null])[] = [
    [{ id: 'Ref' }, /^declare the columns at and amount$/],
    [at, /^declare the column payment .* or deposit/],
    [{ ...at, payment: 'Ref', kind: 'Type' }, /^say what the words of the column kind mean/],
    [{ ...at, payment: 'Ref' }, null],
  ]
  for (const [columns, message] of cases) {
    const missing = missingOf({ columns, words: {} }, false)
    if (message === null) assert.equal(missing, null)
    else assert.match(missing ?? '', message)
  }
})

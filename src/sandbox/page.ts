import { escapeHtml } from '../http/html.ts'
import { formatDollars } from '../ledger/money.ts'
import { isOver, paidCents, type SandboxInvoice } from './invoice.ts'

const providerNames = {
  stripe: 'Stripe Checkout',
  btcpay: 'BTCPay Server',
  nowpayments: 'NOWPayments',
} as const

const style = `
:root { color-scheme: light dark; --ink: #16202b; --soft: #5b6876; --paper: #fff; --back: #eef1f4; --line: #d5dbe1; --act: #0b5c8a; --on: #fff }
@media (prefers-color-scheme: dark) { :root { --ink: #e8edf2; --soft: #9aa7b4; --paper: #1a2129; --back: #10151a; --line: #323c47; --act: #58b0e0; --on: #0c1116 } }
* { box-sizing: border-box }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back) }
header { background: #b3261e; color: #fff; text-align: center; padding: .6rem; font-weight: 700; letter-spacing: .12em }
header small { display: block; font-weight: 400; letter-spacing: 0 }
main { max-width: 30rem; margin: 2rem auto; padding: 1.75rem; background: var(--paper); border: 1px solid var(--line); border-radius: 10px }
h1 { font-size: 1.15rem; margin: 0; overflow-wrap: anywhere }
.amount { font-size: 2.4rem; font-weight: 650; font-variant-numeric: tabular-nums; margin: .5rem 0 0 }
dl { display: grid; grid-template-columns: auto 1fr; gap: .25rem 1rem; margin: 1.25rem 0; font-size: .9rem }
dt { color: var(--soft) } dd { margin: 0; text-align: right; overflow-wrap: anywhere; font-variant-numeric: tabular-nums }
form { display: grid; gap: .5rem; grid-template-columns: 1fr 1fr; margin: 0 }
button { font: inherit; padding: .6rem; border-radius: 7px; border: 1px solid var(--line); background: transparent; color: var(--ink); cursor: pointer }
button:hover { border-color: var(--act) }
button:focus-visible, input:focus-visible, a:focus-visible { outline: 3px solid var(--act); outline-offset: 2px }
button.first { grid-column: 1 / -1; background: var(--act); border-color: var(--act); color: var(--on); font-weight: 600 }
button[disabled] { opacity: .45; cursor: default; border-color: var(--line) }
label { grid-column: 1 / -1; display: grid; gap: .25rem; font-size: .9rem; color: var(--soft) }
input { font: inherit; padding: .55rem; border: 1px solid var(--line); border-radius: 7px; background: transparent; color: var(--ink) }
.said { border-left: 4px solid #b3261e; padding: .4rem .8rem; margin: 1rem 0 } .note { color: var(--soft); font-size: .9rem; margin: 1rem 0 0 } .back { display: block; text-align: center; margin-top: 1.25rem; color: var(--act) }
@media (max-width: 32rem) { main { margin: 0; border: 0; border-radius: 0 } }`

const words: Readonly<Record<SandboxInvoice['status'], string>> = {
  open: 'waits for payment',
  processing: 'seen, not final yet',
  paid: 'paid',
  short: 'closed, paid in part',
  expired: 'expired',
  failed: 'failed',
}

const button = (deed: string, text: string, cents: number | null, enabled: boolean, first = false): string =>
  `<button name="deed" value="${deed}${cents === null ? '' : `:${cents}`}"${first ? ' class="first"' : ''}${enabled ? '' : ' disabled'}>${text}</button>`

/** The pay page of a stand-in: whose shop it is, what is due, and everything a payer can do. */
export const payPage = (invoice: SandboxInvoice, said: string | null): string => {
  const over = isOver(invoice)
  const paid = paidCents(invoice)
  const due = Math.max(invoice.amountCents - paid, 0) || invoice.amountCents
  const crypto = invoice.provider !== 'stripe'
  const half = Math.max(1, Math.floor(due / 2))
  const more = due + Math.max(100, Math.floor(due / 10))
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><title>SANDBOX · ${escapeHtml(invoice.title)}</title><style>${style}</style></head>
<body><header>SANDBOX<small>A stand-in for ${providerNames[invoice.provider]}. No money moves.</small></header>
<main><h1>${escapeHtml(invoice.title)}</h1>
<p class="amount">${formatDollars(invoice.amountCents)}</p>
<dl><dt>Status</dt><dd>${words[invoice.status]}</dd>
<dt>Received</dt><dd>${formatDollars(paid)}</dd>
<dt>Method</dt><dd>${escapeHtml(invoice.method)}</dd>
<dt>Payable until</dt><dd>${new Date(invoice.expiresAtMs).toISOString().slice(0, 16).replace('T', ' ')} UTC</dd>
<dt>Invoice</dt><dd>${escapeHtml(invoice.id)}</dd></dl>
${said === null ? '' : `<p class="said" role="status">${escapeHtml(said)}</p>`}
<form method="post">
${button('pay', over ? (crypto ? `Pay ${formatDollars(due)} again or late` : 'Closed') : `Pay ${formatDollars(due)}`, due, crypto || !over, true)}
${button('pay', `Underpay (${formatDollars(half)})`, half, crypto || !over)}
${button('pay', `Overpay (${formatDollars(more)})`, more, crypto || !over)}
${button('twice', 'Pay twice', due, crypto)}
${button('late', 'Let it expire, then pay', due, crypto && !over)}
${button('process', 'Be seen, not final yet', null, !over && invoice.status === 'open')}
${button('expire', 'Let it expire', null, !over)}
${button('fail', 'Fail', null, !over)}
${button('dispute', 'Charge back', null, !crypto && paid > 0)}
</form>
${crypto ? '' : '<p class="note">A Checkout session takes one payment, and none after its end.</p>'}
<form method="post" style="margin-top:1rem"><label>Another amount, in cents <input name="cents" inputmode="numeric" pattern="[1-9][0-9]{0,7}" required></label>
<button name="deed" value="amount"${crypto || !over ? '' : ' disabled'}>Pay it</button></form>
<a class="back" href="${escapeHtml(invoice.returnUrl)}" rel="noreferrer">Back to the shop</a></main></body></html>`
}

import { type Html, html } from '../platform/pages/html.ts'
import { formatDollars } from '../terms/money.ts'
import { framed } from './frame.ts'
import { isOver, paidCents, type SandboxInvoice } from './invoice.ts'

export const providerNames = {
  stripe: 'Stripe Checkout',
  btcpay: 'BTCPay Server',
  nowpayments: 'NOWPayments',
} as const

const words: Readonly<Record<SandboxInvoice['status'], string>> = {
  open: 'waits for payment',
  processing: 'seen, not final yet',
  paid: 'paid',
  short: 'closed, paid in part',
  expired: 'expired',
  failed: 'failed',
}

/** What a payer sees of an invoice, e.g. `paid, $5.00 of $10.00 missing`. */
export const statusText = (invoice: SandboxInvoice): string => {
  const missing = invoice.amountCents - paidCents(invoice)
  const some = invoice.payments.length > 0 && missing > 0
  return `${words[invoice.status]}${some ? `, ${formatDollars(missing)} of ${formatDollars(invoice.amountCents)} missing` : ''}`
}

type Button = {
  readonly deed: string
  readonly text: string
  readonly cents: number | null
  readonly enabled: boolean
  readonly first?: boolean
}

const button = ({ deed, text, cents, enabled, first = false }: Button): Html =>
  html`<button name="deed" value="${deed}${cents === null ? '' : `:${cents}`}"${first ? { html: ' class="first"' } : null}${enabled ? null : { html: ' disabled' }}>${text}</button>`

/** What the first button says. */
const payText = (invoice: SandboxInvoice, dueCents: number): string => {
  if (!isOver(invoice)) return `Pay ${formatDollars(dueCents)}`
  return invoice.provider === 'stripe' ? 'Closed' : `Pay ${formatDollars(dueCents)} again or late`
}

const buttons = (invoice: SandboxInvoice): readonly Button[] => {
  const open = !isOver(invoice)
  const paid = paidCents(invoice)
  const due = Math.max(invoice.amountCents - paid, 0) || invoice.amountCents
  const crypto = invoice.provider !== 'stripe'
  const half = Math.max(1, Math.floor(due / 2))
  const more = due + Math.max(100, Math.floor(due / 10))
  const payable = crypto || open
  return [
    { deed: 'pay', text: payText(invoice, due), cents: due, enabled: payable, first: true },
    { deed: 'pay', text: `Underpay (${formatDollars(half)})`, cents: half, enabled: payable },
    { deed: 'pay', text: `Overpay (${formatDollars(more)})`, cents: more, enabled: payable },
    { deed: 'twice', text: 'Pay twice', cents: due, enabled: crypto },
    { deed: 'late', text: 'Let it expire, then pay', cents: due, enabled: crypto && open },
    {
      deed: 'process',
      text: 'Be seen, not final yet',
      cents: null,
      enabled: open && invoice.status === 'open',
    },
    { deed: 'expire', text: 'Let it expire', cents: null, enabled: open },
    { deed: 'fail', text: 'Fail', cents: null, enabled: open },
    { deed: 'dispute', text: 'Charge back', cents: null, enabled: !crypto && paid > 0 },
  ]
}

/** The pay page of a stand-in: whose shop it is, what is due, and everything a payer can do. */
export const payPage = (invoice: SandboxInvoice, said: string | null): string => {
  const crypto = invoice.provider !== 'stripe'
  const body = html`<h1>${invoice.title}</h1>
<p class="amount">${formatDollars(invoice.amountCents)}</p>
<dl><dt>Status</dt><dd>${statusText(invoice)}</dd>
<dt>Received</dt><dd>${formatDollars(paidCents(invoice))}</dd>
<dt>Method</dt><dd>${invoice.method}</dd>
<dt>Payable until</dt><dd>${new Date(invoice.expiresAtMs).toISOString().slice(0, 16).replace('T', ' ')} UTC</dd>
<dt>Invoice</dt><dd>${invoice.id}</dd></dl>
${said === null ? null : html`<p class="said" role="status">${said}</p>`}
<form method="post">
${buttons(invoice).map(button)}
</form>
${crypto ? null : html`<p class="note">A Checkout session takes one payment, and none after its end.</p>`}
<form method="post"><label>Another amount, in cents <input name="cents" inputmode="numeric" pattern="[1-9][0-9]{0,7}" required></label>
<button name="deed" value="amount"${crypto || !isOver(invoice) ? null : { html: ' disabled' }}>Pay it</button></form>
<a class="back" href="${invoice.returnUrl}" rel="noreferrer">Back to the shop</a>
<a class="back" href="/">Everything in the sandbox</a>`
  return framed({ title: invoice.title, note: `A stand-in for ${providerNames[invoice.provider]}.`, body })
}

import type { FastifyInstance, FastifyReply } from 'fastify'
import { formatDollars } from '../kernel/money.ts'
import { type Html, html } from '../platform/ui/html.ts'
import { isInvoiceClosed, paidCents, refundedCents, type SandboxInvoice } from './invoice.ts'
import type { InvoiceActions, SandboxStore } from './sandbox-store.ts'

/** The inline style of every sandbox page, so that a page loads no other file. */
export const style = `
:root { color-scheme: light dark; --ink: #16202b; --soft: #5b6876; --paper: #fff; --back: #eef1f4; --line: #d5dbe1; --act: #0b5c8a; --on: #fff; --alarm: #b3261e }
@media (prefers-color-scheme: dark) { :root { --ink: #e8edf2; --soft: #9aa7b4; --paper: #1a2129; --back: #10151a; --line: #323c47; --act: #58b0e0; --on: #0c1116 } }
* { box-sizing: border-box }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back) }
header { background: var(--alarm); color: #fff; text-align: center; padding: .6rem 1rem; font-weight: 700; letter-spacing: .12em }
header small { display: block; font-weight: 400; letter-spacing: 0 }
main { max-width: 30rem; margin: 2rem auto; padding: 1.75rem; background: var(--paper); border: 1px solid var(--line); border-radius: 10px }
main.wide { max-width: 60rem }
h1, h2 { margin: 0; overflow-wrap: break-word; line-height: 1.3 }
h1 { font-size: 1.15rem } h2 { font-size: 1rem; margin-top: 2rem }
p { margin: .5rem 0 } a { color: var(--act) } code { font-size: .9em }
.amount { font-size: 2.4rem; font-weight: 650; font-variant-numeric: tabular-nums; margin: .5rem 0 0 }
dl { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: .25rem 1rem; margin: 1.25rem 0; font-size: .9rem }
dt { color: var(--soft) } dd { margin: 0; text-align: right; overflow-wrap: break-word; font-variant-numeric: tabular-nums }
form { display: grid; gap: .5rem; grid-template-columns: 1fr 1fr; margin: 0 } form + form, .note + form { margin-top: 1rem }
button { font: inherit; padding: .6rem; border-radius: 7px; border: 1px solid var(--line); background: transparent; color: var(--ink); cursor: pointer }
button:hover { border-color: var(--act) }
button:focus-visible, input:focus-visible, select:focus-visible, a:focus-visible { outline: 3px solid var(--act); outline-offset: 2px }
button.first { grid-column: 1 / -1; background: var(--act); border-color: var(--act); color: var(--on); font-weight: 600 }
button[disabled] { opacity: .45; cursor: default; border-color: var(--line) }
label { grid-column: 1 / -1; display: grid; gap: .25rem; font-size: .9rem; color: var(--soft) }
input, select { font: inherit; padding: .55rem; border: 1px solid var(--line); border-radius: 7px; background: var(--paper); color: var(--ink); min-width: 0 }
.said { border-left: 4px solid var(--alarm); padding: .4rem .8rem; margin: 1rem 0 } .note { color: var(--soft); font-size: .9rem; margin: 1rem 0 0 } .back { display: block; text-align: center; margin-top: 1.25rem }
ul.cards { list-style: none; margin: .5rem 0 0; padding: 0 } ul.cards li { border-top: 1px solid var(--line); padding: .6rem 0; display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: 0 1rem }
ul.cards small { grid-column: 1 / -1; color: var(--soft); overflow-wrap: break-word } ul.cards p { grid-column: 1 / -1; white-space: pre-wrap; overflow-wrap: break-word; margin: 0 }
ul.cards b { font-variant-numeric: tabular-nums }
form.switches { grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: .75rem 1rem; margin-top: .75rem; align-items: end } form.switches label { grid-column: auto } form.switches label.on { display: flex; align-items: center; gap: .5rem; color: var(--ink) }
form.switches .act { grid-column: 1 / -1; display: flex; gap: .5rem } form.switches .first { flex: 1 }
@media (max-width: 32rem) { main { margin: 0; padding: 1.25rem; border: 0; border-radius: 0 } }`

/** A complete page with the sandbox banner; `wide` for lists. */
export const framed = (page: {
  readonly title: string
  /** The banner's description of what the page simulates. */
  readonly note: string
  readonly body: Html
  readonly wide?: boolean
}): string =>
  html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><title>SANDBOX · ${page.title}</title><style>${{ html: style }}</style></head>
<body><header>SANDBOX<small>${page.note} No money moves.</small></header>
<main${page.wide ? { html: ' class="wide"' } : null}>${page.body}</main></body></html>`.html

/** The page for an unknown address. */
export const notFoundPage = (what: string): string =>
  framed({
    title: 'not found',
    note: 'Stand-ins for the payment providers.',
    body: html`<h1>${what}</h1>
<p>It may be of another start: a fresh data directory begins with no invoices.</p>
<a class="back" href="/">Everything in the sandbox</a>`,
  })

export const providerNames = {
  stripe: 'Stripe Checkout',
  btcpay: 'BTCPay Server',
  nowpayments: 'NOWPayments',
} as const

const statusTexts: Readonly<Record<SandboxInvoice['status'], string>> = {
  open: 'waits for payment',
  processing: 'seen, not final yet',
  paid: 'paid',
  short: 'closed, paid in part',
  expired: 'expired',
  failed: 'failed',
}

/** The status of an invoice for its payer, e.g. `paid, $5.00 of $10.00 missing`. */
export const statusText = (invoice: SandboxInvoice): string => {
  const missing = invoice.amountCents - paidCents(invoice)
  const isPartlyPaid = invoice.payments.length > 0 && missing > 0
  return `${statusTexts[invoice.status]}${isPartlyPaid ? `, ${formatDollars(missing)} of ${formatDollars(invoice.amountCents)} missing` : ''}`
}

type Button = {
  readonly action: string
  readonly text: string
  readonly cents: number | null
  readonly enabled: boolean
  readonly first?: boolean
}

const button = ({ action, text, cents, enabled, first = false }: Button): Html =>
  html`<button name="action" value="${action}${cents === null ? '' : `:${cents}`}"${first ? { html: ' class="first"' } : null}${enabled ? null : { html: ' disabled' }}>${text}</button>`

/** The label of the first button. */
const payText = (invoice: SandboxInvoice, dueCents: number): string => {
  if (!isInvoiceClosed(invoice)) return `Pay ${formatDollars(dueCents)}`
  return invoice.provider === 'stripe' ? 'Closed' : `Pay ${formatDollars(dueCents)} again or late`
}

const buttons = (invoice: SandboxInvoice): readonly Button[] => {
  const isOpen = !isInvoiceClosed(invoice)
  const paid = paidCents(invoice)
  const amountDue = Math.max(invoice.amountCents - paid, 0) || invoice.amountCents
  const isCrypto = invoice.provider !== 'stripe'
  const halfCents = Math.max(1, Math.floor(amountDue / 2))
  const overpaidCents = amountDue + Math.max(100, Math.floor(amountDue / 10))
  const payable = isCrypto || isOpen
  return [
    { action: 'pay', text: payText(invoice, amountDue), cents: amountDue, enabled: payable, first: true },
    { action: 'pay', text: `Underpay (${formatDollars(halfCents)})`, cents: halfCents, enabled: payable },
    {
      action: 'pay',
      text: `Overpay (${formatDollars(overpaidCents)})`,
      cents: overpaidCents,
      enabled: payable,
    },
    { action: 'twice', text: 'Pay twice', cents: amountDue, enabled: isCrypto },
    { action: 'late', text: 'Let it expire, then pay', cents: amountDue, enabled: isCrypto && isOpen },
    {
      action: 'process',
      text: 'Be seen, not final yet',
      cents: null,
      enabled: isOpen && invoice.status === 'open',
    },
    { action: 'expire', text: 'Let it expire', cents: null, enabled: isOpen },
    { action: 'fail', text: 'Fail', cents: null, enabled: isOpen },
    { action: 'dispute', text: 'Charge back', cents: null, enabled: !isCrypto && paid > 0 },
    { action: 'refund', text: 'Be refunded by its owner', cents: paid, enabled: paid > 0 },
    {
      action: 'fail-refund',
      text: 'Fail the refund',
      cents: null,
      enabled: !isCrypto && refundedCents(invoice) > 0,
    },
    {
      action: 'mark-settled',
      text: 'Be marked as settled',
      cents: null,
      enabled: invoice.provider === 'btcpay',
    },
    {
      action: 'mark-invalid',
      text: 'Be marked as invalid',
      cents: null,
      enabled: invoice.provider === 'btcpay',
    },
  ]
}

/** The pay page of an invoice: its title, the amount due, and all actions. */
export const payPage = (invoice: SandboxInvoice, message: string | null): string => {
  const isCrypto = invoice.provider !== 'stripe'
  const body = html`<h1>${invoice.title}</h1>
<p class="amount">${formatDollars(invoice.amountCents)}</p>
<dl><dt>Status</dt><dd>${statusText(invoice)}</dd>
<dt>Received</dt><dd>${formatDollars(paidCents(invoice))}</dd>
<dt>Method</dt><dd>${invoice.method}</dd>
<dt>Payable until</dt><dd>${new Date(invoice.expiresAtMs).toISOString().slice(0, 16).replace('T', ' ')} UTC</dd>
<dt>Invoice</dt><dd>${invoice.id}</dd></dl>
${message === null ? null : html`<p class="said" role="status">${message}</p>`}
<form method="post">
${buttons(invoice).map(button)}
</form>
${isCrypto ? null : html`<p class="note">A Checkout session takes one payment, and none after its end.</p>`}
<form method="post"><label>Another amount, in cents <input name="cents" inputmode="numeric" pattern="[1-9][0-9]{0,7}" required></label>
<button name="action" value="amount"${isCrypto || !isInvoiceClosed(invoice) ? null : { html: ' disabled' }}>Pay it</button></form>
<a class="back" href="${invoice.returnUrl}" rel="noreferrer">Back to the shop</a>
<a class="back" href="/">Everything in the sandbox</a>`
  return framed({ title: invoice.title, note: `A simulated ${providerNames[invoice.provider]}.`, body })
}

/** `/pay/{id}`: the pay page of an invoice and the actions of its buttons. */
export const payPageRoutes = (
  app: FastifyInstance,
  sandboxStore: SandboxStore,
  { find, actionOf }: InvoiceActions,
): void => {
  const html = (reply: FastifyReply, status: number, text: string) =>
    reply.code(status).header('content-type', 'text/html; charset=utf-8').send(text)
  const notFound = notFoundPage('No invoice has this address')
  app.register(async (pageApp) => {
    pageApp.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string' },
      (_request, body, done) => done(null, body),
    )
    pageApp.get('/pay/:id', async (request, reply) => {
      const invoice = await find((request.params as { id: string }).id)
      return invoice ? html(reply, 200, payPage(invoice, null)) : html(reply, 404, notFound)
    })
    pageApp.post('/pay/:id', async (request, reply) => {
      const invoice = await find((request.params as { id: string }).id)
      if (!invoice) return html(reply, 404, notFound)
      const form = new URLSearchParams(String(request.body ?? ''))
      const [kind = '', buttonCents] = (form.get('action') ?? '').split(':')
      const cents = Number(kind === 'amount' ? form.get('cents') : buttonCents)
      const steps = { twice: ['pay', 'pay'], late: ['expire', 'pay'], amount: ['pay'] }[kind] ?? [kind]
      let message: string | null = null
      for (const step of steps) {
        const action = actionOf(invoice, step, cents)
        const done = action
          ? await sandboxStore.act(invoice.id, action)
          : { refused: 'there is no such button' }
        if ('refused' in done) message = done.refused
      }
      if (message === null) return reply.redirect(`/pay/${invoice.id}`, 303)
      return html(reply, 409, payPage((await find(invoice.id)) ?? invoice, message))
    })
  })
}

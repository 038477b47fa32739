import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { formatDollars } from '../kernel/money.ts'
import { type Html, html } from '../platform/ui/html.ts'
import type { FaultControls } from './controls.ts'
import { isInvoiceClosed, type SandboxInvoice, type Switches, SwitchesShape } from './invoice.ts'
import { framed, notFoundPage, providerNames, statusText } from './sandbox-pages.ts'
import { invoiceKind, type SandboxStore } from './sandbox-store.ts'
import { type Message, messageKind } from './telegram-sandbox.ts'

/** Limits of the lists. The newest entries are shown. */
const shownClosed = 20
const shownMessages = 50

/** The labels of the fault switches. */
const labels: Readonly<Record<keyof Switches, string>> = {
  lost: 'Share of callbacks that are lost, 0 to 1',
  repeats: 'Times that each callback is repeated',
  reorderMs: 'Callbacks overtake each other within, ms',
  slowMs: 'Callbacks wait, ms',
  forged: 'Forged callbacks go before each',
  lying: 'Callbacks with a wrong amount go after each',
  down: 'The APIs answer 503',
  apiSlowMs: 'The APIs answer after, ms',
  apiCut: 'Connections to the APIs break',
  apiCutShare: 'Share of those connections, 0 to 1',
  apiOf: 'Faults of the API are of',
}
const choices = {
  apiCut: ['never', 'before', 'after'],
  apiOf: ['', 'stripe', 'btcpay', 'nowpayments'],
} as const
const choiceTexts: Readonly<Record<string, string>> = {
  before: 'before it is done',
  after: 'when it was done, before the answer',
  '': 'all providers',
}

const isChoice = (name: string): name is keyof typeof choices => name in choices

const field = ([name, value]: readonly [string, Switches[keyof Switches]]): Html => {
  const label = labels[name as keyof Switches]
  if (typeof value === 'boolean')
    return html`<label class="on"><input type="checkbox" name="${name}"${value ? { html: ' checked' } : null}> ${label}</label>`
  if (isChoice(name))
    return html`<label>${label} <select name="${name}">${choices[name].map(
      (choice) =>
        html`<option value="${choice}"${(value ?? '') === choice ? { html: ' selected' } : null}>${choiceTexts[choice] ?? choice}</option>`,
    )}</select></label>`
  return html`<label>${label} <input name="${name}" inputmode="decimal" value="${String(value)}"></label>`
}

const invoiceItem = (
  invoice: SandboxInvoice,
): Html => html`<li><a href="/pay/${invoice.id}">${invoice.title}</a>
<b>${formatDollars(invoice.amountCents)}</b>
<small>${statusText(invoice)} · ${providerNames[invoice.provider]} · ${invoice.method} · ${invoice.reference}</small></li>`

const messageItem = ({ chat_id: chat, text }: Message): Html =>
  html`<li><p>${text}</p><small>to chat ${String(chat)}</small></li>`

const list = (items: readonly Html[], emptyText: string): Html =>
  items.length === 0 ? html`<p class="note">${emptyText}</p>` : html`<ul class="cards">${items}</ul>`

const indexPage = (view: {
  readonly invoices: readonly SandboxInvoice[]
  readonly switches: Switches
  readonly messages: readonly Message[]
  readonly statusMessage: string | null
}): string => {
  const open = view.invoices.filter((invoice) => !isInvoiceClosed(invoice))
  const closed = view.invoices.filter(isInvoiceClosed)
  const body = html`<h1>Sandbox</h1>
${view.statusMessage === null ? null : html`<p class="said" role="status">${view.statusMessage}</p>`}
<h2 id="open">Open invoices (${open.length})</h2>
${list(open.map(invoiceItem), 'None. POST /api/v1/deposits opens one; its pay_url leads here.')}
<h2 id="closed">Closed invoices (${closed.length})</h2>
${list(closed.slice(0, shownClosed).map(invoiceItem), 'None yet.')}
<h2 id="switches">Fault switches</h2>
<form method="post" action="/_sandbox/switches" class="switches">
${Object.entries(view.switches)
  .toSorted(([, one], [, other]) => Number(typeof one === 'boolean') - Number(typeof other === 'boolean'))
  .map(field)}
<div class="act"><button class="first" name="action" value="set">Set</button><button name="action" value="reset">All off</button></div>
</form>
<p class="note"><a href="/mail">Mailbox</a>: letters of the console, such as sign-in links.</p>
<h2 id="messages">Messages to Telegram (${view.messages.length})</h2>
${list(view.messages.slice(0, shownMessages).map(messageItem), 'None yet. Bots of resellers send here when they are set up with --sandbox.')}`
  return framed({
    title: 'invoices, switches, messages',
    note: 'Stand-ins for the payment providers and Telegram.',
    body,
    wide: true,
  })
}

/** Parses the submitted switches. Browsers do not send unchecked boxes. */
const switchesOf = (form: URLSearchParams, current: Switches) =>
  SwitchesShape.safeParse(
    Object.fromEntries(
      Object.entries(current).map(([name, value]) => {
        if (typeof value === 'boolean') return [name, form.has(name)]
        const text = (form.get(name) ?? '').trim()
        if (typeof value === 'number') return [name, text === '' ? Number.NaN : Number(text)]
        return [name, text === '' ? null : text]
      }),
    ),
  )

/** `/`: all records of the sandbox, with links to the pay pages and a form for the switches. */
export const indexRoutes = (
  app: FastifyInstance,
  sandboxStore: SandboxStore,
  faultControls: FaultControls,
): void => {
  const view = async (statusMessage: string | null): Promise<string> => {
    const all = await sandboxStore.records.all<SandboxInvoice>(invoiceKind)
    // `find` closes an expired invoice.
    const refreshed = await Promise.all(
      all.map(async (invoice) => (await sandboxStore.find(invoice.id)) ?? invoice),
    )
    const messages = await sandboxStore.records.all<Message>(messageKind)
    return indexPage({
      invoices: refreshed.toSorted((a, b) => b.createdAtMs - a.createdAtMs),
      switches: faultControls.now(),
      messages: messages.toSorted((a, b) => b.message_id - a.message_id),
      statusMessage,
    })
  }
  const type = 'text/html; charset=utf-8'
  app.get('/', async (_request, reply) => reply.type(type).send(await view(null)))
  app.register(async (forms) => {
    forms.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string' },
      (_request, body, done) => done(null, body),
    )
    forms.post('/_sandbox/switches', async (request, reply) => {
      const form = new URLSearchParams(String(request.body ?? ''))
      if (form.get('action') === 'reset') {
        faultControls.reset()
        return reply.redirect('/#switches', 303)
      }
      const change = switchesOf(form, faultControls.now())
      if (!change.success)
        return reply
          .code(400)
          .type(type)
          .send(await view(`Nothing was changed. ${z.prettifyError(change.error)}`))
      faultControls.set(change.data as Partial<Switches>)
      return reply.redirect('/#switches', 303)
    })
  })
  app.setNotFoundHandler((request, reply) =>
    request.headers.accept?.includes('text/html')
      ? reply.code(404).type(type).send(notFoundPage('No page has this address'))
      : reply.code(404).send({ error: 'SANDBOX: nothing has this address' }),
  )
}

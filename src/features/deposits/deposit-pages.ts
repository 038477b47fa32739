import { findDeposit, listDeposits } from '../../../projections/deposits.ts'
import type { DepositEvent } from '../../domain/deposits/events.ts'
import { floorCents, maxDepositCents } from '../../domain/payments/payments.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { DepositId } from '../../kernel/ids.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import { depositStream } from '../../kernel/streams.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import {
  choicesOf,
  emptyFormInput,
  type FormInput,
  fieldOf,
  keyField,
  type Problems,
  parseWholeCents,
  problemOfRefusal,
  problemsOf,
} from '../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  goTo,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { amountText, dollarText, idText, microsText, parseCents, timeText } from '../../platform/ui/text.ts'
import type { Gateways } from '../payments/index.ts'
import { depositRecord, depositState, railName } from './deposit-record.ts'
import type { DepositPages } from './deposit-urls.ts'
import type { OpenDepositByForm } from './open-deposit.ts'

const path = '/console/top-up'
const maxShown = 20

/** The payer's text for an event of a deposit. */
const timelineText = (
  event: DepositEvent,
  ofCustomer: boolean,
): { readonly heading: string; readonly details: Html | string | null } => {
  switch (event.type) {
    case 'DepositOpened':
      return {
        heading: 'Opened',
        details: `${dollarText(event.data.amountCents)} by ${railName(event.data.rail)}`,
      }
    case 'DepositInvoiceCreated':
      return {
        heading: 'The invoice is made',
        details: html`it can be paid until ${timeText(event.data.expiresAt)}`,
      }
    case 'DepositProcessing':
      return { heading: 'A payment was seen', details: 'it is not final yet' }
    case 'DepositPaymentReceived':
      return { heading: 'Money arrived', details: `$${microsText(event.data.amountMicros)}` }
    case 'DepositPaymentCredited':
      return {
        heading: ofCustomer ? 'The customer has the credit' : 'The wallet has it',
        details: `$${microsText(event.data.amountMicros)}`,
      }
    case 'DepositSettled':
      return {
        heading: event.data.status === 'paid' ? 'Paid' : 'Closed, paid in part',
        details: `$${microsText(event.data.creditedMicros)} in all`,
      }
    case 'DepositExpired':
      return { heading: 'Expired without a payment', details: null }
    case 'DepositFailed':
      return { heading: 'Failed', details: event.data.reason.replaceAll('_', ' ') }
    case 'DepositChangeReported':
      return { heading: 'The payment provider reported a change', details: 'somebody looks at it' }
    case 'DepositChangeReviewed':
      return { heading: 'Somebody looked at the change', details: null }
    default:
      return event satisfies never
  }
}

/** Top-ups of the wallet by the service's gateways, on their own pages. */
export const topUpPages = ({
  db,
  reads,
  gateways,
  openDeposit,
}: {
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
  readonly gateways: Pick<Gateways, 'liveRails'>
  readonly openDeposit: OpenDepositByForm
}): readonly ConsolePage[] => {
  const view = async (visit: AccountVisit, typed: FormInput, problems: Problems) => {
    const { account, query, formKey, nowMs } = visit
    await reads.settled(account.accountId)
    const [rails, latest] = await Promise.all([
      gateways.liveRails(null),
      listDeposits(db, wholeAccount(account.accountId), { limit: maxShown, offset: 0, status: undefined }),
    ])
    const cents = parseWholeCents(query.get('cents') ?? '')
    const form =
      rails.length === 0
        ? html`<div class="empty"><p>No way to pay is set up here. Ask the service to credit the wallet.</p></div>`
        : html`${problemsOf(problems)}<form method="post" action="${path}" class="stack" novalidate>
${keyField(formKey)}
${fieldOf(
  {
    name: 'amount',
    label: 'Amount, USD',
    hint: `At most ${dollarText(maxDepositCents)}. Less than the least of a way to pay is raised to it.`,
    inputmode: 'decimal',
    maxlength: 12,
    value: cents === undefined ? '' : amountText(cents),
  },
  typed,
  problems,
)}
${choicesOf(
  {
    name: 'method',
    legend: 'Pay by',
    choices: rails.map((rail) => ({
      value: rail,
      label: railName(rail),
      hint: `from ${dollarText(floorCents(rail))}`,
    })),
    chosen: rails.slice(0, 1),
    one: true,
  },
  typed,
  problems,
)}
<div class="acts"><button class="first">Make the invoice</button></div>
</form>`
    return {
      title: 'Top up',
      body: html`${form}
<h2>Latest deposits</h2>
${tableOf({
  caption: 'Deposits, newest first',
  rows: latest.deposits.map((row) => depositRecord(row, nowMs, null)),
  empty: html`<p>There was none yet.</p>`,
  columns: [
    {
      title: 'Deposit',
      head: true,
      cell: ({ deposit_id: id, method }) => html`<a href="/console/deposits/${id}">${railName(method)}</a>`,
    },
    { title: 'State', cell: ({ status }) => depositState(status) },
    { title: 'Invoiced, USD', number: true, cell: ({ amount_cents: each }) => amountText(each) },
    { title: 'Credited, USD', number: true, cell: ({ credited_cents: each }) => amountText(each) },
    { title: 'Opened', cell: ({ created_at: at }) => timeText(String(at)) },
  ],
})}`,
      same: [
        `curl $API/deposits -H "X-API-Key: $KEY" -H "Idempotency-Key: $(uuidgen)" --json '{"amount_cents": 2500, "method": "card"}'`,
        'curl $API/deposits -H "X-API-Key: $KEY"',
      ],
    }
  }

  const open = async (visit: AccountVisit, typed: FormInput) => {
    const { accountId } = visit.account
    const amountCents = parseCents(typed.text('amount'), maxDepositCents)
    const rails = await gateways.liveRails(null)
    const rail = rails.find((each) => each === typed.text('method'))
    const isAmount = amountCents !== undefined && amountCents >= 1
    const problems: Problems = {
      ...(!isAmount && {
        amount: `Type dollars such as 25 or 25.50, at most ${dollarText(maxDepositCents)}.`,
      }),
      ...(!rail && { method: 'Choose how to pay.' }),
    }
    if (!isAmount || !rail) return refusedView(await view(visit, typed, problems))
    try {
      const depositId = await openDeposit(
        { accountId, customerId: null, key: typed.key, path, amountCents, rail },
        visit.cause,
      )
      return goTo(`/console/deposits/${depositId}`)
    } catch (error) {
      return refusedView(await view(visit, typed, problemOfRefusal(error)), 409)
    }
  }

  return [
    accountPage({
      path,
      name: 'topUp',
      summary: 'Adds money to the wallet',
      nav: { label: 'Top up' },
      show: async (visit) => show(await view(visit, emptyFormInput, {})),
      act: { once: 'by key', run: open },
    }),
  ]
}

/** A deposit of the wallet or of a reseller's customer. */
export const depositPages = ({
  db,
  pages,
  reads,
  log,
}: {
  readonly db: Db
  readonly pages: Pick<DepositPages, 'of'>
  readonly reads: Pick<Reads, 'settled'>
  readonly log: Pick<EventLog, 'readStream'>
}): readonly ConsolePage[] => {
  const timeline = async (depositId: string, ofCustomer: boolean): Promise<Html> => {
    const items: Html[] = []
    for await (const stored of log.readStream(depositStream(depositId as DepositId))) {
      const event = decode(stored) as RecordedEvent<DepositEvent>
      const { heading, details } = timelineText(event, ofCustomer)
      items.push(
        html`<li><strong>${heading}</strong>${details === null ? null : html`<br>${details}`}<br><small>${timeText(event.metadata.recordedAt)}</small></li>\n`,
      )
    }
    return html`<ol class="timeline">${items}</ol>`
  }

  const depositPage = async ({ account, params, nowMs }: AccountVisit) => {
    await reads.settled(account.accountId)
    const row = await findDeposit(db, wholeAccount(account.accountId), params.id ?? '')
    if (!row) throw refuse('not_found', 'no deposit has this id')
    const deposit = depositRecord(row, nowMs, pages)
    const { pay_url: payUrl, order_id: orderId, status } = deposit
    const isPayable = status === 'awaiting_payment' || status === 'processing'
    return show({
      title: `Deposit of ${dollarText(deposit.amount_cents)}`,
      acts:
        payUrl === null
          ? html`<a href="${path}">Top up</a>`
          : html`<a class="button first" href="${payUrl}" rel="noreferrer">${row.customerId === null ? html`Pay ${dollarText(deposit.amount_cents)}` : 'Open its pay page'}</a>`,
      body: html`${isPayable ? html`<p>${row.customerId === null ? 'Pay on the page of the payment provider. The money is in the wallet' : 'Your customer pays on the page of your payment provider. It has the credit'} as soon as the provider reports it, mostly within a minute. <a href="/console/deposits/${deposit.deposit_id}">Refresh</a></p>` : null}
<dl class="facts">
<dt>State</dt><dd>${depositState(status)}</dd>
<dt>Deposit</dt><dd>${idText(deposit.deposit_id)}</dd>
${
  row.customerId === null
    ? nothing
    : html`<dt>Of</dt><dd><a href="/console/reseller/customers/${row.customerId}">${row.customerRef ?? idText(row.customerId)}</a></dd>
`
}<dt>Paid by</dt><dd>${railName(deposit.method)}</dd>
<dt>Invoiced</dt><dd>${dollarText(deposit.amount_cents)}</dd>
<dt>Credited</dt><dd>${dollarText(deposit.credited_cents)}</dd>
${deposit.charged_back_cents === 0 ? nothing : html`<dt>Charged back</dt><dd>${dollarText(deposit.charged_back_cents)}</dd>\n`}${orderId === null ? nothing : html`<dt>For order</dt><dd><a href="/console/orders/${orderId}">${idText(orderId)}</a></dd>\n`}${deposit.expires_at === null ? nothing : html`<dt>Can be paid until</dt><dd>${timeText(String(deposit.expires_at))}</dd>\n`}</dl>
<h2>What happened</h2>
${await timeline(deposit.deposit_id, row.customerId !== null)}`,
      same: [`curl $API/deposits/${deposit.deposit_id} -H "X-API-Key: $KEY"`],
    })
  }

  return [
    accountPage({
      path: '/console/deposits/{id}',
      name: 'showDeposit',
      summary: 'One deposit with what happened to it',
      show: depositPage,
    }),
  ]
}

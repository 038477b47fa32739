import { createReadPurse } from '../../../projections/balances.ts'
import { depositsAfter, findDeposit, listGatewayChanges } from '../../../projections/deposits.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { DepositEvent } from '../../domain/deposits/events.ts'
import { shownDepositStatuses } from '../../domain/deposits/fold.ts'
import { floorCents, maxDepositCents } from '../../domain/payments/payments.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { DepositId } from '../../kernel/ids.ts'
import { microsToCentsCeil } from '../../kernel/money.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import { depositStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { CaughtUp, Reads } from '../../platform/projections/read-your-writes.ts'
import { choicesOf, fieldOf, formOf, hiddenOf, problemsIn } from '../../platform/ui/form.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { labelled, listPage, pageRows, pagerOf } from '../../platform/ui/list.ts'
import {
  accountPage,
  type ConsolePage,
  goTo,
  operatorPage,
  refused,
  refusedBy,
} from '../../platform/ui/page.ts'
import {
  amountColumn,
  type Column,
  detailsOf,
  idColumn,
  nameColumn,
  stateColumn,
  tableOf,
  timeColumn,
  timelineOf,
} from '../../platform/ui/table.ts'
import {
  afterText,
  amountText,
  buttonLink,
  dollarText,
  idText,
  microsText,
  oneOf,
  parseCents,
  parseWholeCents,
  timeText,
} from '../../platform/ui/text.ts'
import { type Contact, contactLink } from '../accounts/index.ts'
import { productLinks } from '../catalog/index.ts'
import { linkedText } from '../finance/index.ts'
import type { Gateways } from '../payments/index.ts'
import { isReference } from '../wallet/index.ts'
import { depositBadges, depositRecord, depositState, railName } from './deposit-record.ts'
import type { DepositPages } from './deposit-urls.ts'
import { changeTexts, reviewChange } from './gateway-changes.ts'
import type { OpenDepositByForm } from './open-deposit.ts'

const path = '/console/top-up'

/** Columns of a table of deposits, after the column that names the deposit. */
export const depositColumns: readonly Column<ReturnType<typeof depositRecord>>[] = [
  stateColumn('State', ({ status }) => depositBadges[status]),
  amountColumn('Invoiced', ({ amount_cents: cents }) => cents, { place: 'lead' }),
  amountColumn('Credited', ({ credited_cents: cents }) => cents),
  timeColumn('Opened', ({ created_at: at }) => String(at), { place: 'plain' }),
  idColumn('Deposit id', ({ deposit_id: id }) => id),
]

/** The payer's text for an event of a deposit. */
const timelineText = (
  event: DepositEvent,
  ofCustomer: boolean,
): { readonly heading: string; readonly detail: Html | string | null } => {
  switch (event.type) {
    case 'DepositOpened':
      return {
        heading: 'Opened',
        detail: `${dollarText(event.data.amountCents)} by ${railName(event.data.rail)}`,
      }
    case 'DepositInvoiceCreated':
      return {
        heading: 'Invoice created',
        detail: html`payable until ${timeText(event.data.expiresAt)}`,
      }
    case 'DepositProcessing':
      return { heading: 'Payment seen', detail: 'not final yet' }
    case 'DepositPaymentReceived':
      return { heading: 'Payment received', detail: `$${microsText(event.data.amountMicros)}` }
    case 'DepositPaymentCredited':
      return {
        heading: ofCustomer ? 'Credited to the customer' : 'Credited to the wallet',
        detail: `$${microsText(event.data.amountMicros)}${event.data.late ? ', after the invoice closed or its order no longer waited' : ''}`,
      }
    case 'DepositSettled':
      return {
        heading: event.data.status === 'paid' ? 'Paid' : 'Closed, partially paid',
        detail: `$${microsText(event.data.creditedMicros)} in total`,
      }
    case 'DepositExpired':
      return { heading: 'Expired without a payment', detail: null }
    case 'DepositFailed':
      return { heading: 'Failed', detail: event.data.reason.replaceAll('_', ' ') }
    case 'DepositCanceled':
      return { heading: 'Canceled: its order does not need it any more', detail: null }
    case 'DepositChangeReported':
      return { heading: 'The payment provider reported a change', detail: 'under review' }
    case 'DepositChangeReviewed':
      return {
        heading: event.data.ended
          ? 'The payment provider no longer reports the change'
          : 'The change was reviewed',
        detail: null,
      }
    case 'DepositRefundRequested':
      return { heading: 'Refund to the payer requested', detail: dollarText(event.data.amountCents) }
    case 'DepositRefundMade':
      return { heading: 'Refund made by the payment provider', detail: null }
    case 'DepositRefundRefused':
      return { heading: 'Refund not made', detail: null }
    default:
      return event satisfies never
  }
}

/** Amounts of a top-up that are one click away. */
const suggestedCents = [2_500, 5_000, 10_000]

/** Top-ups of the wallet by the service's gateways, on their own pages. */
export const topUpPages = ({
  gateways,
  openDeposit,
  db,
  reads,
}: {
  readonly gateways: Pick<Gateways, 'liveRails'>
  readonly openDeposit: OpenDepositByForm
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
}): readonly ConsolePage[] => [
  accountPage({
    path,
    name: 'topUp',
    summary: 'Adds money to the wallet',
    show: async ({ account: { accountId }, query, form }) => {
      const rails = await gateways.liveRails(null)
      await reads.settled(accountId)
      const owedCents = microsToCentsCeil((await createReadPurse(db)(accountId)).receivableMicros)
      const cents = parseWholeCents(query.get('cents') ?? '')
      const amountField = fieldOf(
        {
          name: 'amount',
          label: 'Amount, USD',
          hint: `At most ${dollarText(maxDepositCents)}. Smaller amounts are raised to the minimum of the payment method.`,
          inputmode: 'decimal',
          maxlength: 12,
          value: cents === undefined ? '' : amountText(cents),
        },
        form,
      )
      const methodField = choicesOf(
        {
          name: 'method',
          legend: 'Payment method',
          choices: rails.map((rail) => ({
            value: rail,
            label: railName(rail),
            hint: `from ${dollarText(floorCents(rail))}`,
          })),
          chosen: rails.slice(0, 1),
          one: true,
        },
        form,
      )
      return {
        title: 'Top up',
        body: html`${
          owedCents === 0
            ? null
            : html`<p class="message warn">You owe ${dollarText(owedCents)} after a refund or a dispute. Your payment pays it first.</p>`
        }${
          rails.length === 0
            ? html`<div class="empty"><p>No payment method is set up. Ask the service to credit the wallet.</p></div>`
            : formOf(form, {
                fields: [amountField, methodField],
                submit: 'Create invoice',
                more: html`${suggestedCents.map((each) => html` <button name="cents" value="${each}">Top up ${dollarText(each)}</button>`)}`,
                action: path,
              })
        }
<p><a href="/console/deposits">Your deposits</a></p>`,
        cliEquivalents: [
          `curl $API/deposits -H "X-API-Key: $KEY" -H "Idempotency-Key: $(uuidgen)" --json '{"amount_cents": 2500, "method": "card"}'`,
          'curl $API/deposits -H "X-API-Key: $KEY"',
        ],
      }
    },
    act: {
      once: 'by key',
      run: async ({ account: { accountId }, cause }, typed) => {
        const amountCents =
          suggestedCents.find((cents) => String(cents) === typed.text('cents')) ??
          parseCents(typed.text('amount'), maxDepositCents)
        const rail = oneOf(await gateways.liveRails(null), typed.text('method'))
        const problems = problemsIn({
          amount: !amountCents && `Type dollars such as 25 or 25.50, at most ${dollarText(maxDepositCents)}.`,
          method: !rail && 'Choose how to pay.',
        })
        if (problems || !amountCents || !rail) return refused(problems ?? {})
        try {
          const key = { accountId, customerId: null, key: typed.key, path }
          return goTo(`/console/deposits/${await openDeposit({ ...key, amountCents, rail }, cause)}`)
        } catch (error) {
          return { ...refusedBy(error), status: 409 }
        }
      },
    },
  }),
]

/** A deposit of the wallet or of a reseller's customer. */
export const depositPages = ({
  db,
  pages,
  reads,
  log,
  catalog,
  contact,
}: {
  readonly db: Db
  /** Where customers get help. */
  readonly contact: Contact
  readonly catalog: { current(): Pick<Catalog, 'products'> }
  readonly pages: Pick<DepositPages, 'of'>
  readonly reads: Pick<Reads, 'settled'>
  readonly log: Pick<EventLog, 'readStream'>
}): readonly ConsolePage[] => {
  const timeline = async (depositId: string, ofCustomer: boolean): Promise<Html> => {
    const items = []
    for await (const stored of log.readStream(depositStream(depositId as DepositId))) {
      const event = decode(stored) as RecordedEvent<DepositEvent>
      items.push({ ...timelineText(event, ofCustomer), at: timeText(event.metadata.recordedAt) })
    }
    return timelineOf(items)
  }

  return [
    listPage(accountPage, {
      path: '/console/deposits',
      name: 'showDeposits',
      summary: 'The deposits of the account',
      title: 'Deposits',
      actions: buttonLink(path, 'Top up', 'first'),
      filters: { status: { label: 'State', choices: labelled(shownDepositStatuses) } },
      caption: 'Deposits',
      search: 'Deposit or customer',
      orderedBy: 'Opened',
      file: 'deposits',
      load: async ({ account, nowMs }, page) => {
        await reads.settled(account.accountId)
        return (await depositsAfter(db, wholeAccount(account.accountId), page)).map((row) =>
          depositRecord(row, nowMs, null),
        )
      },
      keyOf: ({ created_at: at, deposit_id: id }) => afterText(String(at), id),
      columns: (_) => [
        nameColumn('Deposit', ({ deposit_id: id, method, customer }) => ({
          text: railName(method),
          href: `/console/deposits/${id}`,
          note: customer && `for ${customer}`,
        })),
        ...depositColumns,
      ],
      empty: html`<p>You have made no deposit yet.</p><p>${buttonLink(path, 'Top up', 'first')}</p>`,
      cliEquivalents: () => ['curl $API/deposits -H "X-API-Key: $KEY"'],
    }),
    accountPage({
      path: '/console/deposits/{id}',
      name: 'showDeposit',
      summary: 'One deposit with its history',
      show: async ({ account, params, nowMs }) => {
        await reads.settled(account.accountId)
        const row = await findDeposit(db, wholeAccount(account.accountId), params.id ?? '')
        if (!row) throw refuse('not_found', 'no deposit has this id')
        const deposit = depositRecord(row, nowMs, pages)
        const { deposit_id: depositId, pay_url: payUrl, order_id: orderId, status } = deposit
        const { customerId, customerRef } = row
        const amount = dollarText(deposit.amount_cents)
        const isPayable = status === 'awaiting_payment' || status === 'processing'
        const contactUs = contactLink(contact)
        const nextStep =
          customerId === null
            ? 'Pay on the page of the payment provider. The money is in the wallet'
            : 'Your customer pays on the page of your payment provider. The customer has the credit'
        return {
          title: `Deposit of ${amount}`,
          actions:
            payUrl === null
              ? html`${status === 'paid' && customerId === null ? buttonLink('/console/catalogue', 'Buy proxies', 'first') : null}<a href="${path}">Top up</a>`
              : html`<a class="button first" href="${payUrl}" rel="noreferrer">${customerId === null ? `Pay ${amount}` : 'Open pay page'}</a>`,
          body: html`${status === 'charged_back' ? html`<p class="message warn">The payment was disputed at the bank of the payer, and the bank took back ${dollarText(deposit.charged_back_cents)}.${customerId === null && contactUs !== null ? html` To clear this, contact us: ${contactUs}` : null}</p>` : null}${status === 'paid' && customerId === null ? html`<p>Buy now: ${productLinks(catalog)}</p>` : null}${isPayable ? html`<p>${nextStep} as soon as the provider reports it, usually within a minute. <a href="/console/deposits/${depositId}">Refresh</a></p>` : null}
${detailsOf([
  ['State', depositState(status)],
  ['Deposit', idText(depositId)],
  [
    'Customer',
    customerId &&
      html`<a href="/console/reseller/customers/${customerId}">${customerRef ?? idText(customerId)}</a>`,
  ],
  ['Payment method', railName(deposit.method)],
  ['Invoiced', amount],
  ['Debt that it pays first', deposit.owed_cents === 0 ? null : dollarText(deposit.owed_cents)],
  ['Credited', dollarText(deposit.credited_cents)],
  ['Charged back', deposit.charged_back_cents === 0 ? null : dollarText(deposit.charged_back_cents)],
  ['Refunded', deposit.refunded_cents === 0 ? null : dollarText(deposit.refunded_cents)],
  ['Order', orderId && idText(orderId, `/console/orders/${orderId}`)],
  ['Payable until', deposit.expires_at && timeText(String(deposit.expires_at))],
])}
<h2>History</h2>
${await timeline(depositId, customerId !== null)}`,
          cliEquivalents: [`curl $API/deposits/${depositId} -H "X-API-Key: $KEY"`],
        }
      },
    }),
  ]
}

const changesPath = '/console/operator/gateway-changes'
const maxOffset = 1_000_000

/** Changes that payment providers reported and no event books, until an operator closes them. */
export const gatewayChangePages = ({
  db,
  caughtUp,
  runner,
}: {
  readonly db: Db
  readonly caughtUp: CaughtUp
  readonly runner: CommandRunner
}): readonly ConsolePage[] => [
  operatorPage({
    path: changesPath,
    name: 'listGatewayChanges',
    summary: 'Reported changes of payments that have no event in the ledger',
    show: async ({ query, visitor }) => {
      const all = query.get('show') === 'all'
      const from = Number(/^\d{1,7}$/.exec(query.get('before') ?? '')?.[0] ?? 0)
      const offset = Math.min(from, maxOffset)
      await caughtUp()
      const changeRows = await listGatewayChanges(db, { all, limit: pageRows + 1, offset })
      const next = changeRows.length > pageRows ? String(offset + pageRows) : null
      return {
        title: 'Changes at payment providers',
        body: html`<p>Reports of providers that are not booked automatically: refunds of crypto payments, money in other currencies, invoices that were marked by hand. No wallet changed. Correct the wallet if necessary, then close the entry.</p>
<p>${all ? html`<a href="${changesPath}">Show open ones only</a>` : html`<a href="${changesPath}?show=all">Show closed ones too</a>`}</p>
${tableOf({
  caption: all ? 'Changes, latest first' : 'Open changes, latest first',
  rows: changeRows.slice(0, pageRows),
  empty: all ? 'Nothing was reported yet.' : 'There are no open changes.',
  columns: [
    {
      title: 'Change',
      head: true,
      cell: ({ change, reference, amount }) =>
        html`${changeTexts[change]}<br><small><code>${reference}</code>${amount === null ? null : `, ${amount}`}</small>`,
    },
    {
      title: 'Deposit',
      cell: ({ depositId: id, accountId: account }) =>
        html`${idText(id)}<br>${linkedText(account, visitor.roles)}`,
    },
    { title: 'Gateway', cell: ({ gatewayId: gateway }) => html`<code>${gateway}</code>` },
    { title: 'Reported', cell: ({ reportedAt: at }) => timeText(at) },
    {
      title: 'Close',
      cell: ({ depositId: id, number, reviewedAt: at, note }) =>
        at !== null
          ? html`${timeText(at)}<br><small>${note}</small>`
          : html`<form method="post" class="inline">${hiddenOf('deposit', id)}${hiddenOf('number', number)}<label class="skip" for="note-${id}-${number}">Note</label><input id="note-${id}-${number}" name="note" maxlength="200" placeholder="What was done" required> <button>Close</button></form>`,
    },
  ],
})}
${pagerOf(changesPath, all ? { show: 'all' } : {}, { before: offset === 0 ? null : String(offset), next })}`,
        cliEquivalents: [
          'bin/farebox deposits changes',
          'bin/farebox deposits review DEPOSIT NUMBER --note TEXT',
        ],
      }
    },
    act: {
      run: async ({ cause }, typed) => {
        const note = typed.text('note')
        if (!isReference(note))
          return refused({ form: 'Describe what was done, in one line of at most 200 characters.' })
        const depositId = typed.text('deposit') as DepositId
        const number = Number(typed.text('number'))
        const answer = await reviewChange(runner, { depositId, number, note }, cause)
        if (answer === 'unknown_change') return refused({ form: 'No deposit has this change.' }, 409)
        return goTo(
          changesPath,
          answer === 'reviewed' ? 'The change is closed.' : 'The change was already closed.',
        )
      },
    },
  }),
]

import { findDeposit } from '../../../projections/deposits.ts'
import { serviceBook } from '../../domain/ledger/books.ts'
import { gatewayAccount } from '../../domain/ledger/postings.ts'
import { floorCents, type Rail } from '../../domain/payments/payments.ts'
import { amountWriter } from '../../kernel/money.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
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
  problemsOf,
} from '../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  goTo,
  type PersonVisit,
  personPage,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { type BadgeTone, countText, dollarText, idText, stateText, timeText } from '../../platform/ui/text.ts'
import type { FindAccount } from '../accounts/index.ts'
import {
  type DepositPages,
  depositRecord,
  depositState,
  type OpenDepositByForm,
  railName,
} from '../deposits/index.ts'
import { bookAccountPath, linkedText } from '../finance/index.ts'
import type { OwnGateway } from '../payments/index.ts'
import { invoiceRefusal, providerForms } from '../resellers/index.ts'
import { accountIdOf } from './operator-account-pages.ts'
import type { OwnGatewayState, OwnGateways } from './own-gateways.ts'

const root = '/console/operator/gateways'

const modes: Readonly<Record<OwnGateway['mode'], readonly [string, BadgeTone]>> = {
  sandbox: ['sandbox', 'off'],
  test: ['test keys', 'warn'],
  live: ['real money', 'good'],
}

const stateOf = ({ rails, takes }: OwnGatewayState): Html => {
  if (rails.length === 0) return stateText('another one is preferred', 'off')
  return takes ? stateText('takes money', 'good') : stateText('does not work here', 'bad')
}

const railsOf = ({ rails }: OwnGateway): string => rails.map(({ rail }) => railName(rail)).join(', ')

/** The settlement currency. A gateway settles in one currency. */
const currencyOf = ({ rails }: OwnGateway): string => (rails[0]?.currency ?? 'usd').toUpperCase()

const usd = (micros: bigint): string => amountWriter([micros])(micros).replace('-', '\u2212')

const floatOf = ({ provider, floatMicros }: OwnGatewayState, { visitor }: PersonVisit): Html =>
  visitor.roles.has('finance')
    ? html`<a href="${bookAccountPath(serviceBook, gatewayAccount(provider))}">${usd(floatMicros)}</a>`
    : html`${usd(floatMicros)}`

const list = async (ownGateways: Pick<OwnGateways, 'states'>, visit: PersonVisit) =>
  show({
    title: 'Payment gateways',
    body: html`<p>Where customers pay the service itself. Gateways are set up by settings and hold from the next start on; resellers have their own.</p>
${tableOf({
  caption: 'Gateways of the service, in the order in which they are preferred',
  rows: await ownGateways.states(),
  empty: html`<p>None is set up: nobody can top up. Set the credentials of Stripe, BTCPay Server or NOWPayments, and start again.</p>`,
  columns: [
    {
      title: 'Gateway',
      head: true,
      cell: ({ gatewayId, provider }) =>
        html`<a href="${root}/${gatewayId}">${providerForms[provider].name}</a>`,
    },
    { title: 'State', cell: stateOf },
    { title: 'Mode', cell: ({ mode }) => stateText(...modes[mode]) },
    { title: 'Pays by', cell: railsOf },
    { title: 'Currency', cell: currencyOf },
    {
      title: 'Last callback',
      cell: ({ callbacks }) => timeText(callbacks?.lastAt ?? null, 'none in 30 days'),
    },
    { title: 'Callbacks waiting', number: true, cell: ({ callbacks }) => String(callbacks?.waiting ?? 0) },
    { title: 'Came in, USD', number: true, cell: (row) => floatOf(row, visit) },
  ],
})}
<p class="soft">“Came in” is what the books have at each gateway: paid in, less refunds, chargebacks, fees and payouts that were booked.</p>`,
    same: ['npx farebox settings', 'npx farebox ledger account assets:gateway'],
  })

type GatewayServices = {
  readonly ownGateways: OwnGateways
  /** The address for callbacks of a gateway. */
  readonly callbackUrl: (gatewayId: string) => string
  readonly db: Db
  /** Opens the pay page of a deposit. */
  readonly depositPages: Pick<DepositPages, 'of'>
  readonly reads: Pick<Reads, 'settled' | 'settledHere'>
  readonly findAccount: FindAccount
  readonly openDeposit: OpenDepositByForm
}

/** The invoice of the last test, with its pay page. */
const madeOf = async (
  { db, depositPages, reads }: Pick<GatewayServices, 'db' | 'depositPages' | 'reads'>,
  { query, visitor, nowMs }: PersonVisit,
): Promise<Html> => {
  const accountId = accountIdOf(query.get('account'))
  const depositId = query.get('deposit') ?? ''
  if (accountId === null || depositId === '') return nothing
  await reads.settled(accountId)
  const row = await findDeposit(db, wholeAccount(accountId), depositId)
  if (row === undefined) return nothing
  const { status, pay_url: payUrl, amount_cents: cents } = depositRecord(row, nowMs, depositPages)
  return html`<h2>The test invoice</h2>
<dl class="facts">
<dt>State</dt><dd>${depositState(status)}</dd>
<dt>Deposit</dt><dd>${linkedText(depositId, visitor.roles)}</dd>
<dt>For</dt><dd>${linkedText(accountId, visitor.roles)}</dd>
</dl>
${payUrl === null ? nothing : html`<p class="acts"><a class="button" href="${payUrl}" rel="noreferrer">Open the pay page of ${dollarText(cents)}</a></p>`}`
}

const gatewayView = async (
  { ownGateways, callbackUrl, db, depositPages, reads }: Omit<GatewayServices, 'findAccount' | 'openDeposit'>,
  visit: PersonVisit,
  typed: FormInput,
  problems: Problems,
) => {
  const row = (await ownGateways.states()).find(({ gatewayId }) => gatewayId === visit.params.id)
  if (row === undefined) throw refuse('not_found', 'the service has no such gateway')
  const { gatewayId, provider, mode, rails, callbacks } = row
  const { name, callbacks: asked } = providerForms[provider]
  const gatewayPath = `${root}/${gatewayId}`
  const sandboxed = mode === 'sandbox'
  return {
    title: name,
    body: html`${problemsOf(problems)}<dl class="facts">
<dt>State</dt><dd>${stateOf(row)}</dd>
<dt>Mode</dt><dd>${stateText(...modes[mode])}</dd>
<dt>Gateway</dt><dd>${idText(gatewayId)}</dd>
<dt>Pays by</dt><dd>${railsOf(row) || 'nothing: another one is preferred'}</dd>
<dt>Currency</dt><dd>${currencyOf(row)}</dd>
<dt>Last callback</dt><dd>${timeText(callbacks?.lastAt ?? null, 'none in 30 days')}</dd>
<dt>Callbacks waiting</dt><dd>${countText(callbacks?.waiting ?? 0, 'callback')} <a href="/console/operator/queues/payment-callbacks">Queue</a></dd>
<dt>Came in</dt><dd>${floatOf(row, visit)} USD</dd>
<dt>Its credentials</dt><dd><span class="soft">${sandboxed ? 'none: a stand-in of this process' : 'in the settings; shown to nobody'}</span></dd>
</dl>
<h2>Its callbacks</h2>
${
  asked === null || sandboxed
    ? html`<p>${sandboxed ? 'The stand-in' : name} is told with each invoice where its callbacks go. Nothing is to be set up there.</p>`
    : html`<p>At ${name}, ${asked} goes to this address.</p>
<code class="secret">${callbackUrl(gatewayId)}</code>`
}
${await madeOf({ db, depositPages, reads }, visit)}
${
  rails.length === 0
    ? nothing
    : html`<h2>A test payment</h2>
<p>This makes the least invoice at the provider, as a customer does who tops up, and leads to its pay page. When somebody pays it, ${sandboxed ? 'with play money, ' : ''}the account has the money, and the callback has come. Nothing is taken while it is unpaid; the account sees it among its deposits.</p>
<form method="post" action="${gatewayPath}" class="stack" novalidate>
${keyField(visit.formKey)}
${fieldOf({ name: 'account', label: 'For the account', hint: 'Its id or its e-mail.', autocomplete: 'off', maxlength: 200 }, typed, problems)}
${choicesOf(
  {
    name: 'rail',
    legend: 'Pay by',
    choices: rails.map(({ rail }) => ({
      value: rail,
      label: railName(rail),
      hint: dollarText(floorCents(rail)),
    })),
    chosen: rails.slice(0, 1).map(({ rail }) => rail),
    one: true,
  },
  typed,
  problems,
)}
<div class="acts"><button class="first">Make a test invoice</button> <a href="${root}">Back</a></div>
</form>`
}`,
    same: [
      `curl $API/deposits -H "X-API-Key: $KEY" -H "Idempotency-Key: $(uuidgen)" --json '{"amount_cents": ${floorCents(rails[0]?.rail ?? 'card')}, "method": "${rails[0]?.rail ?? 'card'}"}'`,
    ],
  }
}

const test = async (services: GatewayServices, visit: PersonVisit, typed: FormInput) => {
  const gateway = services.ownGateways.list().find(({ gatewayId }) => gatewayId === visit.params.id)
  if (gateway === undefined) throw refuse('not_found', 'the service has no such gateway')
  const rail: Rail | undefined = gateway.rails.find((each) => each.rail === typed.text('rail'))?.rail
  const asked = typed.text('account')
  const accountId = asked === '' ? null : await services.findAccount(asked)
  if (rail === undefined || accountId === null)
    return refusedView(
      await gatewayView(services, visit, typed, {
        ...(accountId === null && { account: 'Type the id or the e-mail of an account.' }),
        ...(rail === undefined && { rail: 'Choose how it is paid.' }),
      }),
    )
  await services.reads.settledHere(accountId)
  try {
    const depositId = await services.openDeposit(
      { accountId, customerId: null, key: typed.key, path: root, amountCents: floorCents(rail), rail },
      visit.cause,
    )
    const invoiceQuery = new URLSearchParams({ account: accountId, deposit: depositId })
    return goTo(
      `${root}/${gateway.gatewayId}?${invoiceQuery}`,
      'The provider made the invoice: the credentials work. Pay it to see its callback come.',
    )
  } catch (error) {
    return refusedView(await gatewayView(services, visit, typed, { form: invoiceRefusal(error) }), 409)
  }
}

/** The list of the service's own gateways. They are set up by settings. */
export const ownGatewayListPages = ({
  ownGateways,
}: {
  readonly ownGateways: Pick<OwnGateways, 'states'>
}): readonly ConsolePage[] => [
  personPage({
    path: root,
    name: 'listOwnGateways',
    summary: 'The gateways of the service: how they stand, their callbacks, what came in',
    for: ['operator'],
    nav: { label: 'Payment gateways', group: 'Operator' },
    show: (visit) => list(ownGateways, visit),
  }),
]

/** One gateway of the service, with a test payment. */
export const ownGatewayPages = (services: GatewayServices): readonly ConsolePage[] => [
  personPage({
    path: `${root}/{id}`,
    name: 'showOwnGateway',
    summary: 'One gateway of the service, with a test payment',
    for: ['operator'],
    show: async (visit) => show(await gatewayView(services, visit, emptyFormInput, {})),
    act: { once: 'by key', run: (visit, typed) => test(services, visit, typed) },
  }),
]

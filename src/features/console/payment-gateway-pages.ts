import type pg from 'pg'
import { findDeposit } from '../../../projections/deposits.ts'
import { serviceBook } from '../../domain/ledger/books.ts'
import { gatewayAccount } from '../../domain/ledger/postings.ts'
import { floorCents, type Rail } from '../../domain/payments/payments.ts'
import { isoTime } from '../../kernel/clock.ts'
import { amountWriter } from '../../kernel/money.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import { refuse } from '../../platform/http/errors.ts'
import { type Db, sql } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { choicesOf, type FormInput, fieldOf, formOf, problemsIn } from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { type ConsolePage, goTo, operatorPage, type PersonVisit, refused } from '../../platform/ui/page.ts'
import { detailsOf, tableOf } from '../../platform/ui/table.ts'
import {
  type BadgeTone,
  countText,
  dollarText,
  idText,
  queryText,
  softText,
  stateText,
  timeText,
} from '../../platform/ui/text.ts'
import type { FindAccount } from '../accounts/index.ts'
import {
  type DepositPages,
  depositRecord,
  depositState,
  type OpenDepositByForm,
  railName,
} from '../deposits/index.ts'
import { bookAccountPath, linkedText } from '../finance/index.ts'
import { type CallbacksSeen, callbacksOf, type Gateways, type OwnGateway } from '../payments/index.ts'
import { invoiceRefusal, providerForms } from '../resellers/index.ts'
import { accountIdOf } from './operator-account-pages.ts'

/** A gateway of the service with its state. */
type OwnGatewayState = OwnGateway & {
  /** Whether payments go there. */
  readonly takes: boolean
  readonly callbacks: CallbacksSeen | undefined
  /** Incoming less outgoing money, micro-dollars. */
  readonly floatMicros: bigint
}

/** The gateways of the service, in order of preference. */
export type OwnGateways = {
  list(): readonly OwnGateway[]
  states(): Promise<readonly OwnGatewayState[]>
  /** The gateways whose last payment was found without a callback. */
  silent(nowMs: number): Promise<readonly string[]>
}

/** Payments of this time are compared with the callbacks, milliseconds. */
const comparedMs = 7 * 86_400_000
/** A gateway is silent if its last callback is older than its last payment by more than this, milliseconds. */
const silentMs = 3_600_000

export const createOwnGateways = ({
  gateways,
  db,
  pool,
  floats,
}: {
  readonly gateways: Pick<Gateways, 'forRail'> & { own(): readonly OwnGateway[] }
  readonly db: Db
  readonly pool: pg.Pool
  /** Incoming less outgoing money of each gateway, micro-dollars, by the name of its account in the books. */
  readonly floats: () => Promise<ReadonlyMap<string, bigint>>
}): OwnGateways => ({
  list: gateways.own,
  states: async () => {
    const ownGateways = gateways.own()
    const [seen, balances, takes] = await Promise.all([
      callbacksOf(
        pool,
        ownGateways.map(({ gatewayId }) => gatewayId),
      ),
      floats(),
      Promise.all(
        ownGateways.map(async ({ rails: [first], gatewayId }) => {
          const liveGateway =
            first === undefined ? null : await gateways.forRail(null, first.rail).catch(() => null)
          return liveGateway?.gatewayId === gatewayId
        }),
      ),
    ])
    return ownGateways.map((each, at) => ({
      ...each,
      takes: takes[at] === true,
      callbacks: seen[at],
      floatMicros: balances.get(gatewayAccount(each.provider)) ?? 0n,
    }))
  },
  silent: async (nowMs) => {
    const gatewayIds = gateways.own().map(({ gatewayId }) => gatewayId)
    const [seen, payments] = await Promise.all([
      callbacksOf(pool, gatewayIds),
      db
        .selectFrom('read.deposits')
        .where('openedAt', '>', isoTime(nowMs - comparedMs))
        .where('gatewayId', '=', sql<string>`any (${gatewayIds}::text[])`)
        .groupBy('gatewayId')
        .orderBy('gatewayId')
        .select((eb) => ['gatewayId', eb.fn.max('paidAt').as('paidAt')])
        .execute(),
    ])
    const lastCallbacks = new Map(
      seen.map(({ gatewayId, lastAt }) => [gatewayId, Date.parse(lastAt ?? isoTime(0))]),
    )
    return payments
      .filter(
        ({ gatewayId, paidAt }) => paidAt && Date.parse(paidAt) - lastCallbacks.get(gatewayId)! > silentMs,
      )
      .map(({ gatewayId }) => gatewayId)
  },
})

const root = '/console/operator/gateways'

const modes: Readonly<Record<OwnGateway['mode'], readonly [string, BadgeTone]>> = {
  sandbox: ['sandbox', 'off'],
  test: ['test keys', 'warn'],
  live: ['real money', 'good'],
}

const stateOf = ({ rails, takes }: OwnGatewayState): Html => {
  if (rails.length === 0) return stateText('not used: another one is preferred', 'off')
  return takes ? stateText('enabled', 'good') : stateText('does not work here', 'bad')
}

const railsOf = ({ rails }: OwnGateway): string => rails.map(({ rail }) => railName(rail)).join(', ')

/** The settlement currency. A gateway settles in one currency. */
const currencyOf = ({ rails }: OwnGateway): string => (rails[0]?.currency ?? 'usd').toUpperCase()

const usd = (micros: bigint): string => amountWriter([micros])(micros).replace('-', '\u2212')

const floatOf = ({ provider, floatMicros }: OwnGatewayState, { visitor }: PersonVisit): Html =>
  visitor.roles.has('finance')
    ? html`<a href="${bookAccountPath(serviceBook, gatewayAccount(provider))}">${usd(floatMicros)}</a>`
    : html`${usd(floatMicros)}`

/** The service's own gateways, which are set up by settings, and a test payment at each. */
export const ownGatewayPages = ({
  ownGateways,
  callbackUrl,
  db,
  depositPages,
  reads,
  findAccount,
  openDeposit,
}: {
  readonly ownGateways: OwnGateways
  /** The address for callbacks of a gateway. */
  readonly callbackUrl: (gatewayId: string) => string
  readonly db: Db
  /** Opens the pay page of a deposit. */
  readonly depositPages: Pick<DepositPages, 'of'>
  readonly reads: Pick<Reads, 'settled' | 'settledHere'>
  readonly findAccount: FindAccount
  readonly openDeposit: OpenDepositByForm
}): readonly ConsolePage[] => {
  /** The invoice of the last test, with its pay page. */
  const testInvoiceOf = async ({ query, visitor, nowMs }: PersonVisit): Promise<Html | null> => {
    const accountId = accountIdOf(query.get('account'))
    const depositId = query.get('deposit') ?? ''
    if (accountId === null || depositId === '') return null
    await reads.settled(accountId)
    const row = await findDeposit(db, wholeAccount(accountId), depositId)
    if (row === undefined) return null
    const { status, pay_url: payUrl, amount_cents: cents } = depositRecord(row, nowMs, depositPages)
    return html`<h2>Test invoice</h2>
${detailsOf([
  ['State', depositState(status)],
  ['Deposit', linkedText(depositId, visitor.roles)],
  ['Account', linkedText(accountId, visitor.roles)],
])}
${payUrl === null ? null : html`<p class="actions"><a class="button" href="${payUrl}" rel="noreferrer">Open pay page of ${dollarText(cents)}</a></p>`}`
  }

  const gatewayView = async (visit: PersonVisit): Promise<View> => {
    const { form } = visit
    const row = (await ownGateways.states()).find(({ gatewayId }) => gatewayId === visit.params.id)
    if (row === undefined) throw refuse('not_found', 'the service has no such gateway')
    const { gatewayId, provider, mode, rails, callbacks } = row
    const { name, callbacks: webhook } = providerForms[provider]
    const sandboxed = mode === 'sandbox'
    const waiting = countText(callbacks?.waiting ?? 0, 'callback')
    const testForm = html`<h2>Test payment</h2>
<p>This creates the smallest possible invoice at the provider, as for a top-up, and links to its pay page. If the ${sandboxed ? 'play ' : ''}money arrives in the account, the credentials and the callback work. An unpaid invoice costs nothing; it is among the deposits of the account.</p>
${formOf(form, {
  fields: [
    fieldOf(
      {
        name: 'account',
        label: 'Account',
        hint: 'Its id or e-mail address.',
        autocomplete: 'off',
        maxlength: 200,
      },
      form,
    ),
    choicesOf(
      {
        name: 'rail',
        legend: 'Payment method',
        choices: rails.map(({ rail }) => ({
          value: rail,
          label: railName(rail),
          hint: dollarText(floorCents(rail)),
        })),
        chosen: rails.slice(0, 1).map(({ rail }) => rail),
        one: true,
      },
      form,
    ),
  ],
  submit: 'Create test invoice',
  back: root,
  action: `${root}/${gatewayId}`,
})}`
    return {
      title: name,
      body: html`${detailsOf([
        ['State', stateOf(row)],
        ['Mode', stateText(...modes[mode])],
        ['Gateway', idText(gatewayId)],
        ['Payment methods', railsOf(row) || 'none: another gateway is preferred'],
        ['Currency', currencyOf(row)],
        ['Last callback', timeText(callbacks?.lastAt ?? null, 'none in 30 days')],
        [
          'Callbacks waiting',
          html`${waiting} <a href="/console/operator/queues/payment-callbacks">Queue</a>`,
        ],
        ['Balance', html`${floatOf(row, visit)} USD`],
        [
          'Credentials',
          softText(sandboxed ? 'none: this is a sandbox provider' : 'in the settings; never shown'),
        ],
      ])}
<h2>Callbacks</h2>
${
  webhook === null || sandboxed
    ? html`<p>${sandboxed ? 'The sandbox provider' : name} gets the callback address with each invoice. There is nothing to set up.</p>`
    : html`<p>At ${name}, set up ${webhook}, with this address.</p>
<code class="secret">${callbackUrl(gatewayId)}</code>`
}
${await testInvoiceOf(visit)}
${rails.length === 0 ? null : testForm}`,
      cliEquivalents: [
        `curl $API/deposits -H "X-API-Key: $KEY" -H "Idempotency-Key: $(uuidgen)" --json '{"amount_cents": ${floorCents(rails[0]?.rail ?? 'card')}, "method": "${rails[0]?.rail ?? 'card'}"}'`,
      ],
    }
  }

  const test = async (visit: PersonVisit, typed: FormInput) => {
    const gateway = ownGateways.list().find(({ gatewayId }) => gatewayId === visit.params.id)
    if (gateway === undefined) throw refuse('not_found', 'the service has no such gateway')
    const rail: Rail | undefined = gateway.rails.find((each) => each.rail === typed.text('rail'))?.rail
    const accountText = typed.text('account')
    const accountId = accountText === '' ? null : await findAccount(accountText)
    const problems = problemsIn({
      account: accountId === null && 'Type the id or the e-mail address of an account.',
      rail: rail === undefined && 'Choose a payment method.',
    })
    if (rail === undefined || accountId === null) return refused(problems ?? {})
    await reads.settledHere(accountId)
    try {
      const depositId = await openDeposit(
        { accountId, customerId: null, key: typed.key, path: root, amountCents: floorCents(rail), rail },
        visit.cause,
      )
      return goTo(
        `${root}/${gateway.gatewayId}${queryText({ account: accountId, deposit: depositId })}`,
        'The provider created the invoice: the credentials work. Pay it to test the callback.',
      )
    } catch (error) {
      return refused({ form: invoiceRefusal(error) }, 409)
    }
  }

  return [
    operatorPage({
      path: root,
      name: 'listOwnGateways',
      summary: 'The gateways of the service: states, callbacks and balances',
      show: async (visit) => ({
        title: 'Payment gateways',
        body: html`<p>Customers pay the service through these gateways. They are configured by settings, which take effect after a restart. Resellers have their own gateways.</p>
${tableOf({
  caption: 'Gateways of the service, by preference',
  rows: await ownGateways.states(),
  empty:
    'No gateway is set up, so wallets cannot be topped up. Set the credentials of Stripe, BTCPay Server or NOWPayments, and restart.',
  columns: [
    {
      title: 'Gateway',
      head: true,
      cell: ({ gatewayId, provider }) =>
        html`<a href="${root}/${gatewayId}">${providerForms[provider].name}</a>`,
    },
    { title: 'State', cell: stateOf },
    { title: 'Mode', cell: ({ mode }) => stateText(...modes[mode]) },
    { title: 'Payment methods', cell: railsOf },
    { title: 'Currency', cell: currencyOf },
    {
      title: 'Last callback',
      cell: ({ callbacks }) => timeText(callbacks?.lastAt ?? null, 'none in 30 days'),
    },
    { title: 'Callbacks waiting', number: true, cell: ({ callbacks }) => callbacks?.waiting ?? 0 },
    { title: 'Balance, USD', number: true, cell: (row) => floatOf(row, visit) },
  ],
})}
<p class="soft">The balance of a gateway in the books: payments less refunds, chargebacks, fees and payouts.</p>`,
        cliEquivalents: ['bin/farebox settings', 'bin/farebox ledger account assets:gateway'],
      }),
    }),
    operatorPage({
      path: `${root}/{id}`,
      name: 'showOwnGateway',
      summary: 'One gateway of the service, with a test payment',
      show: gatewayView,
      act: { once: 'by key', run: test },
    }),
  ]
}

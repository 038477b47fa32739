import {
  floorCents,
  type Provider,
  type ResellerRail,
  resellerRails,
} from '../../domain/payments/payments.ts'
import type { Terms } from '../../domain/resellers/fold.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { toSentence } from '../../platform/ui/answer-page.ts'
import {
  emptyFormInput,
  type FormInput,
  keyField,
  type Problems,
  problemsOf,
} from '../../platform/ui/form.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  goTo,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { amountText, dollarText, idText, stateText, timeText } from '../../platform/ui/text.ts'
import { depositRecord, depositState, railName } from '../deposits/index.ts'
import type { Gateways } from '../payments/index.ts'
import { providersOf } from './credential-forms.ts'
import { gatewayFields, invoiceRefusal, parseGatewayForm, providerForms } from './gateway-form.ts'
import type { Resellers } from './terms.ts'
import { type TestInvoices, tester } from './test-invoices.ts'

const root = '/console/reseller/gateways'

type Gateway = Terms['gateways'][ResellerRail]

/** The rail in the path. @throws not_found */
const railIn = ({ params }: AccountVisit): ResellerRail => {
  const rail = resellerRails.find((known) => known === params.rail)
  if (rail === undefined) throw refuse('not_found', `a gateway is of ${resellerRails.join(' or ')}`)
  return rail
}

/** The provider in the path. @throws not_found if it does not serve the rail */
const providerIn = ({ params }: AccountVisit, rail: ResellerRail): Provider => {
  const provider = providersOf[rail].find((known) => known === params.provider)
  if (provider === undefined)
    throw refuse('not_found', `${rail} is served by ${providersOf[rail].join(' or ')}`)
  return provider
}

const command = ({ account }: AccountVisit, rail: ResellerRail, commandOptions: string): string =>
  `npx farebox reseller gateway --account ${account.accountId} --rail ${rail} ${commandOptions}   # the service does this`

/** The terms in the log. @throws reseller_forbidden */
const termsOf = async (
  resellers: Pick<Resellers, 'read'>,
  { account, cause }: AccountVisit,
): Promise<Terms> => {
  const read = await resellers.read(account.accountId, cause)
  if (read.outcome === 'refused') throw refuse('reseller_forbidden', read.refusal.message)
  return read.terms
}

type LiveGateways = {
  readonly reads: Pick<Reads, 'settledHere'>
  readonly gateways: Pick<Gateways, 'forRail'>
}

const stateOf = async (
  { reads, gateways }: LiveGateways,
  { account }: AccountVisit,
  rail: ResellerRail,
  gateway: Gateway,
): Promise<Html> => {
  if (gateway === null) return stateText('not set up', 'off')
  await reads.settledHere(account.accountId)
  const liveGateway = await gateways.forRail(account.accountId, rail)
  return liveGateway === null ? stateText('does not work here', 'bad') : stateText('takes money', 'good')
}

const setUpLinks = (rail: ResellerRail): Html =>
  html`${providersOf[rail].map(
    (provider) =>
      html`<a class="button" href="${root}/${rail}/set/${provider}">${providerForms[provider].name}</a> `,
  )}`

/** The gateways of a reseller: its own accounts at payment providers, one for each rail. */
export const gatewayListPages = ({
  resellers,
  reads,
  gateways,
}: LiveGateways & { readonly resellers: Pick<Resellers, 'read'> }): readonly ConsolePage[] => {
  const list = async (visit: AccountVisit) => {
    const terms = await termsOf(resellers, visit)
    const rows = await Promise.all(
      resellerRails.map(async (rail) => ({
        rail,
        gateway: terms.gateways[rail],
        state: await stateOf({ reads, gateways }, visit, rail, terms.gateways[rail]),
      })),
    )
    return show({
      title: 'Gateways',
      acts: html`<a class="button" href="/console/reseller/shop">Name on pay pages</a>`,
      body: html`<p>Your customers pay you, at payment providers of your own: one for each way to pay. Their pay pages carry the name ${terms.shop.merchantName === null ? html`“Shop”, until you <a href="/console/reseller/shop">give yours</a>` : html`<strong>${terms.shop.merchantName}</strong>`}, and nothing of ours.</p>
${tableOf({
  caption: 'Your gateways, by the way your customers pay',
  rows,
  empty: html`<p>There is no way to pay.</p>`,
  columns: [
    {
      title: 'They pay by',
      head: true,
      cell: ({ rail }) => html`<a href="${root}/${rail}">${railName(rail)}</a>`,
    },
    { title: 'State', cell: ({ state }) => state },
    {
      title: 'Provider',
      cell: ({ rail, gateway }) =>
        gateway === null ? html`Set up ${setUpLinks(rail)}` : providerForms[gateway.provider].name,
    },
    { title: 'Its credentials', cell: ({ gateway }) => (gateway === null ? '' : idText(gateway.reference)) },
  ],
})}`,
      same: [`npx farebox reseller show ${visit.account.accountId}   # the service does this`],
    })
  }

  return [
    accountPage({
      path: root,
      name: 'listGateways',
      summary: 'The gateways of a reseller, by the way its customers pay',
      for: ['reseller'],
      nav: { label: 'Gateways', group: 'Reseller' },
      show: list,
    }),
  ]
}

/** A gateway of a reseller, with its callbacks and a test payment. */
export const gatewayPages = ({
  resellers,
  reads,
  gateways,
  testInvoices,
  callbackUrl,
}: LiveGateways & {
  readonly resellers: Pick<Resellers, 'read'>
  readonly testInvoices: TestInvoices
  /** The callback URL of a gateway. */
  readonly callbackUrl: (reference: string) => string
}): readonly ConsolePage[] => {
  const testsOf = async ({ account, nowMs }: AccountVisit, rail: ResellerRail): Promise<Html> => {
    const found = await testInvoices.latest(account.accountId, rail)
    return tableOf({
      caption: 'Test invoices, newest first',
      rows: found.map((row) => depositRecord(row, nowMs, null)),
      empty: html`<p>There was none yet.</p>`,
      columns: [
        {
          title: 'Invoice',
          head: true,
          cell: ({ deposit_id: id }) => html`<a href="/console/deposits/${id}">${idText(id)}</a>`,
        },
        { title: 'State', cell: ({ status }) => depositState(status) },
        { title: 'Invoiced, USD', number: true, cell: ({ amount_cents: cents }) => amountText(cents) },
        { title: 'Credited, USD', number: true, cell: ({ credited_cents: cents }) => amountText(cents) },
        { title: 'Opened', cell: ({ created_at: at }) => timeText(String(at)) },
      ],
    })
  }

  const callbacksOf = (gateway: NonNullable<Gateway>): Html => {
    const { callbacks, name } = providerForms[gateway.provider]
    return callbacks === null
      ? html`<p>${name} is told with each invoice where its callbacks go. Nothing is to be set up there.</p>`
      : html`<p>At ${name}, ${callbacks} goes to this address. Other credentials have another one; the former goes on for the invoices it has made.</p>
<code class="secret">${callbackUrl(gateway.reference)}</code>`
  }

  const gatewayView = async (visit: AccountVisit, rail: ResellerRail, problems: Problems) => {
    const terms = await termsOf(resellers, visit)
    const gateway = terms.gateways[rail]
    const pagePath = `${root}/${rail}`
    const title = `Payments by ${railName(rail).toLowerCase()}`
    if (gateway === null)
      return {
        title,
        body: html`${problemsOf(problems)}<div class="empty"><p>No gateway is set up: your customers cannot pay by ${railName(rail).toLowerCase()}. Set up</p><p class="acts">${setUpLinks(rail)}</p></div>`,
        same: [command(visit, rail, `--provider ${providersOf[rail][0]} --credentials credentials.json`)],
      }
    const minAmountText = dollarText(floorCents(rail))
    return {
      title,
      acts: html`${providersOf[rail].map((provider) => html`<a class="button" href="${pagePath}/set/${provider}">${provider === gateway.provider ? 'Change its credentials' : `Use ${providerForms[provider].name}`}</a> `)}<a class="button danger" href="${pagePath}/remove">Take it away</a>`,
      body: html`${problemsOf(problems)}<dl class="facts">
<dt>State</dt><dd>${await stateOf({ reads, gateways }, visit, rail, gateway)}</dd>
<dt>Provider</dt><dd>${providerForms[gateway.provider].name}</dd>
<dt>Its credentials</dt><dd>${idText(gateway.reference)} <span class="soft">sealed; shown to nobody again</span></dd>
<dt>Name on its pay pages</dt><dd>${terms.shop.merchantName ?? 'Shop'} <a href="/console/reseller/shop">Change</a></dd>
</dl>
<h2>Its callbacks</h2>
${callbacksOf(gateway)}
<h2>A test payment</h2>
<p>This makes an invoice of ${minAmountText} at your provider, for a customer of yours called <code>${tester}</code>, and shows its pay page as your customers see it. When you pay it, the money is in your account there and ${tester} has the credit. Nothing is taken while it is unpaid.</p>
<form method="post" action="${pagePath}">${keyField(visit.formKey)}<div class="acts"><button class="first">Make a test invoice of ${minAmountText}</button></div></form>
<h2>Test invoices</h2>
${await testsOf(visit, rail)}`,
      same: [
        `curl $API/deposits -H "X-API-Key: $KEY" -H "X-Reseller-Customer-Id: ${tester}" -H "Idempotency-Key: $(uuidgen)" --json '{"amount_cents": ${floorCents(rail)}, "method": "${rail}"}'`,
        command(visit, rail, `--provider ${gateway.provider} --credentials credentials.json`),
      ],
    }
  }

  const test = async (visit: AccountVisit, typed: FormInput) => {
    const rail = railIn(visit)
    const { accountId } = visit.account
    await reads.settledHere(accountId)
    try {
      const form = { key: typed.key, path: root }
      const depositId = await testInvoices.open(accountId, rail, form, visit.cause)
      return goTo(
        `/console/deposits/${depositId}`,
        'Your provider made the invoice: the credentials work. Open its pay page to see what your customers see, or pay it to see its callback come.',
      )
    } catch (error) {
      return refusedView(await gatewayView(visit, rail, { form: invoiceRefusal(error) }), 409)
    }
  }

  return [
    accountPage({
      path: `${root}/{rail}`,
      name: 'showGateway',
      summary: 'One gateway of a reseller, with a test payment',
      for: ['reseller'],
      show: async (visit) => show(await gatewayView(visit, railIn(visit), {})),
      act: { once: 'by key', run: test },
    }),
  ]
}

/** Adds and removes the gateways of a reseller. */
export const gatewaySetupPages = ({
  resellers,
  sandboxed,
}: {
  readonly resellers: Pick<Resellers, 'setGateway'>
  /** Whether this installation runs sandbox providers. */
  readonly sandboxed: boolean
}): readonly ConsolePage[] => {
  const setView = (visit: AccountVisit, typed: FormInput, problems: Problems) => {
    const rail = railIn(visit)
    const provider = providerIn(visit, rail)
    const { name, callbacks } = providerForms[provider]
    const pagePath = `${root}/${rail}/set/${provider}`
    return {
      title: `${name} for payments by ${railName(rail).toLowerCase()}`,
      body: html`${problemsOf(problems)}
<p>${callbacks === null ? null : html`First make, at ${name}, ${callbacks}; any address will do. Its secret is asked for here. The next page says which address it must have. `}New invoices are made with these credentials; those that are open stay with the former ones, so keep them valid at ${name} until then. Secrets are sealed and shown to nobody again${Object.keys(problems).length === 0 ? '' : ': type them once more'}.</p>
<form method="post" action="${pagePath}" class="stack" novalidate autocomplete="off">
${keyField(visit.formKey)}
${gatewayFields(provider, sandboxed, typed, problems)}
<div class="acts"><button class="first">Take money by ${name}</button> <a href="${root}/${rail}">Back</a></div>
</form>`,
      same: [command(visit, rail, `--provider ${provider} --credentials credentials.json`)],
    }
  }

  const set = async (visit: AccountVisit, typed: FormInput) => {
    const rail = railIn(visit)
    const provider = providerIn(visit, rail)
    const parsedForm = parseGatewayForm(provider, sandboxed, typed)
    if ('problems' in parsedForm) return refusedView(setView(visit, typed, parsedForm.problems))
    const result = await resellers.setGateway(
      visit.account.accountId,
      rail,
      parsedForm.credentials,
      visit.cause,
    )
    if (result.outcome === 'refused')
      return refusedView(setView(visit, typed, { form: toSentence(result.refusal.message) }), 409)
    return goTo(
      `${root}/${rail}`,
      `${providerForms[provider].name} is set up. Make a test invoice to see that its credentials work.`,
    )
  }

  const remove = async (visit: AccountVisit) => {
    const rail = railIn(visit)
    const result = await resellers.setGateway(visit.account.accountId, rail, null, visit.cause)
    if (result.outcome === 'refused') throw refuse('reseller_forbidden', result.refusal.message)
    return goTo(`${root}/${rail}`, `Payments by ${railName(rail).toLowerCase()} have no gateway any more.`)
  }

  return [
    accountPage({
      path: `${root}/{rail}/set/{provider}`,
      name: 'setGateway',
      summary: 'Sets up the gateway of a reseller',
      for: ['reseller'],
      confirmed: true,
      show: async (visit) => show(setView(visit, emptyFormInput, {})),
      act: { once: true, run: set },
    }),
    accountPage({
      path: `${root}/{rail}/remove`,
      name: 'removeGateway',
      summary: 'Takes the gateway of a reseller away',
      for: ['reseller'],
      confirmed: true,
      show: async (visit) => {
        const rail = railIn(visit)
        const railLabel = railName(rail).toLowerCase()
        return show({
          title: `Take away payments by ${railLabel}`,
          body: html`<p>Your customers cannot pay by ${railLabel} any more: orders that are short of credit are refused without a pay page. Invoices that are open are still followed, as long as their credentials work at the provider.</p>
<form method="post" action="${root}/${rail}/remove"><div class="acts"><button class="danger">Take payments by ${railLabel} away</button> <a href="${root}/${rail}">Keep them</a></div></form>`,
          same: [command(visit, rail, '--remove')],
        })
      },
      act: { run: remove },
    }),
  ]
}

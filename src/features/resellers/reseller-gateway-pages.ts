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
import { formOf } from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { type AccountVisit, type ConsolePage, goTo, refused, resellerPage } from '../../platform/ui/page.ts'
import { detailsOf, tableOf } from '../../platform/ui/table.ts'
import { buttonLink, dollarText, idText, oneOf, softText, stateText } from '../../platform/ui/text.ts'
import { depositColumns, depositRecord, railName } from '../deposits/index.ts'
import type { Gateways } from '../payments/index.ts'
import { providersOf } from './credential-forms.ts'
import { gatewayFields, invoiceRefusal, parseGatewayForm, providerForms } from './gateway-form.ts'
import type { Resellers } from './terms.ts'
import { type TestInvoices, tester } from './test-invoices.ts'

const root = '/console/reseller/gateways'

type Gateway = Terms['gateways'][ResellerRail]

/** The rail in the path. @throws not_found */
const railIn = ({ params }: AccountVisit): ResellerRail => {
  const rail = oneOf(resellerRails, params.rail ?? '')
  if (rail === undefined) throw refuse('not_found', `a gateway is of ${resellerRails.join(' or ')}`)
  return rail
}

/** The provider in the path. @throws not_found if it does not serve the rail */
const providerIn = ({ params }: AccountVisit, rail: ResellerRail): Provider => {
  const provider = oneOf(providersOf[rail], params.provider ?? '')
  if (provider === undefined)
    throw refuse('not_found', `${rail} is served by ${providersOf[rail].join(' or ')}`)
  return provider
}

const command = ({ account }: AccountVisit, rail: ResellerRail, commandOptions: string): string =>
  `bin/farebox reseller gateway --account ${account.accountId} --rail ${rail} ${commandOptions}   # for operators`

const setUpLinks = (rail: ResellerRail): Html =>
  html`${providersOf[rail].map((provider) => buttonLink(`${root}/${rail}/set/${provider}`, providerForms[provider].name))}`

const methodName = (rail: ResellerRail): string => railName(rail).toLowerCase()

/** The gateways of a reseller: its own accounts at payment providers, one for each payment method. */
export const gatewayPages = ({
  resellers,
  reads,
  gateways,
  testInvoices,
  callbackUrl,
  sandboxed,
}: {
  readonly resellers: Pick<Resellers, 'read' | 'setGateway'>
  readonly reads: Pick<Reads, 'settledHere'>
  readonly gateways: Pick<Gateways, 'forRail'>
  readonly testInvoices: TestInvoices
  /** The callback URL of a gateway. */
  readonly callbackUrl: (reference: string) => string
  /** Whether this installation runs sandbox providers. */
  readonly sandboxed: boolean
}): readonly ConsolePage[] => {
  /** The terms in the log. @throws reseller_forbidden */
  const termsOf = async ({ account, cause }: AccountVisit): Promise<Terms> => {
    const read = await resellers.read(account.accountId, cause)
    if (read.outcome === 'refused') throw refuse('reseller_forbidden', read.refusal.message)
    return read.terms
  }

  const stateOf = async ({ account }: AccountVisit, rail: ResellerRail, gateway: Gateway): Promise<Html> => {
    if (gateway === null) return stateText('not set up', 'off')
    await reads.settledHere(account.accountId)
    const liveGateway = await gateways.forRail(account.accountId, rail)
    return liveGateway === null ? stateText('does not work here', 'bad') : stateText('enabled', 'good')
  }

  const callbacksOf = (gateway: NonNullable<Gateway>): Html => {
    const { callbacks, name } = providerForms[gateway.provider]
    return callbacks === null
      ? html`<p>${name} gets the callback address with each invoice. There is nothing to set up.</p>`
      : html`<p>At ${name}, set up ${callbacks}, with this address. New credentials get another address; the old one keeps working for their invoices.</p>
<code class="secret">${callbackUrl(gateway.reference)}</code>`
  }

  const gatewayView = async (visit: AccountVisit): Promise<View> => {
    const rail = railIn(visit)
    const terms = await termsOf(visit)
    const gateway = terms.gateways[rail]
    const pagePath = `${root}/${rail}`
    const title = `Payments by ${methodName(rail)}`
    if (gateway === null)
      return {
        title,
        body: html`<div class="empty"><p>No gateway is set up, so your customers cannot pay by ${methodName(rail)}. Choose a provider:</p><p class="actions">${setUpLinks(rail)}</p></div>`,
        cliEquivalents: [
          command(visit, rail, `--provider ${providersOf[rail][0]} --credentials credentials.json`),
        ],
      }
    const minAmountText = dollarText(floorCents(rail))
    const invoices = await testInvoices.latest(visit.account.accountId, rail)
    return {
      title,
      actions: html`${providersOf[rail].map((provider) =>
        buttonLink(
          `${pagePath}/set/${provider}`,
          provider === gateway.provider ? 'Change credentials' : `Use ${providerForms[provider].name}`,
        ),
      )}${buttonLink(`${pagePath}/remove`, 'Remove', 'danger')}`,
      body: html`${detailsOf([
        ['State', await stateOf(visit, rail, gateway)],
        ['Provider', providerForms[gateway.provider].name],
        ['Credentials', html`${idText(gateway.reference)} ${softText('encrypted; never shown again')}`],
        [
          'Name on pay pages',
          html`${terms.shop.merchantName ?? 'Shop'} <a href="/console/reseller/shop">Change</a>`,
        ],
      ])}
<h2>Callbacks</h2>
${callbacksOf(gateway)}
<h2>Test payment</h2>
<p>This creates an invoice of ${minAmountText} at your provider, for your customer <code>${tester}</code>, and shows the pay page of your customers. If you pay it, the money is in your account at the provider, and ${tester} has the credit. An unpaid invoice costs nothing.</p>
${formOf(visit.form, { submit: `Create test invoice of ${minAmountText}`, action: pagePath })}
<h2>Test invoices</h2>
${tableOf({
  caption: 'Test invoices, newest first',
  rows: invoices.map((row) => depositRecord(row, visit.nowMs, null)),
  empty: 'There are no test invoices yet.',
  columns: [
    {
      title: 'Invoice',
      head: true,
      cell: ({ deposit_id: id }) => html`<a href="/console/deposits/${id}">${idText(id)}</a>`,
    },
    ...depositColumns,
  ],
})}`,
      cliEquivalents: [
        `curl $API/deposits -H "X-API-Key: $KEY" -H "X-Reseller-Customer-Id: ${tester}" -H "Idempotency-Key: $(uuidgen)" --json '{"amount_cents": ${floorCents(rail)}, "method": "${rail}"}'`,
        command(visit, rail, `--provider ${gateway.provider} --credentials credentials.json`),
      ],
    }
  }

  return [
    resellerPage({
      path: root,
      name: 'listGateways',
      summary: 'The gateways of a reseller, by payment method',
      show: async (visit) => {
        const terms = await termsOf(visit)
        const { merchantName } = terms.shop
        const rows = await Promise.all(
          resellerRails.map(async (rail) => {
            const gateway = terms.gateways[rail]
            return { rail, gateway, state: await stateOf(visit, rail, gateway) }
          }),
        )
        return {
          title: 'Gateways',
          actions: buttonLink('/console/reseller/shop', 'Name on pay pages'),
          body: html`<p>Your customers pay you through your own payment providers, one for each payment method. The pay pages show the name ${merchantName === null ? html`“Shop”, until you <a href="/console/reseller/shop">set yours</a>` : html`<strong>${merchantName}</strong>`}, and never ours.</p>
${tableOf({
  caption: 'Your gateways by payment method',
  rows,
  columns: [
    {
      title: 'Payment method',
      head: true,
      cell: ({ rail }) => html`<a href="${root}/${rail}">${railName(rail)}</a>`,
    },
    { title: 'State', cell: ({ state }) => state },
    {
      title: 'Provider',
      cell: ({ rail, gateway }) =>
        gateway === null ? html`Set up ${setUpLinks(rail)}` : providerForms[gateway.provider].name,
    },
    { title: 'Credentials', cell: ({ gateway }) => gateway && idText(gateway.reference) },
  ],
})}`,
          cliEquivalents: [`bin/farebox reseller show ${visit.account.accountId}   # for operators`],
        }
      },
    }),
    resellerPage({
      path: `${root}/{rail}`,
      name: 'showGateway',
      summary: 'One gateway of a reseller, with a test payment',
      show: gatewayView,
      act: {
        once: 'by key',
        run: async (visit, typed) => {
          const rail = railIn(visit)
          const { accountId } = visit.account
          await reads.settledHere(accountId)
          try {
            const form = { key: typed.key, path: root }
            const depositId = await testInvoices.open(accountId, rail, form, visit.cause)
            return goTo(
              `/console/deposits/${depositId}`,
              'Your provider created the invoice: the credentials work. Open its pay page to see it as your customers do, or pay it to test the callback.',
            )
          } catch (error) {
            return refused({ form: invoiceRefusal(error) }, 409)
          }
        },
      },
    }),
    resellerPage({
      path: `${root}/{rail}/set/{provider}`,
      name: 'setGateway',
      summary: 'Sets up the gateway of a reseller',
      confirmed: true,
      show: async (visit) => {
        const rail = railIn(visit)
        const provider = providerIn(visit, rail)
        const { name, callbacks } = providerForms[provider]
        const { form } = visit
        return {
          title: `${name} for payments by ${methodName(rail)}`,
          body: html`<p>${callbacks === null ? null : html`First set up ${callbacks} at ${name}, with any address, and copy its secret. The next page shows the final address. `}New invoices use these credentials. Open invoices need the old ones, so keep them valid at ${name} until then. Secrets are encrypted and never shown again${Object.keys(form.problems).length === 0 ? '' : ': type them once more'}.</p>
${formOf(form, { fields: [gatewayFields(provider, sandboxed, form)], submit: `Use ${name}`, back: `${root}/${rail}` })}`,
          cliEquivalents: [command(visit, rail, `--provider ${provider} --credentials credentials.json`)],
        }
      },
      act: {
        once: true,
        run: async (visit, typed) => {
          const rail = railIn(visit)
          const provider = providerIn(visit, rail)
          const parsedForm = parseGatewayForm(provider, sandboxed, typed)
          if ('problems' in parsedForm) return refused(parsedForm.problems)
          const { accountId } = visit.account
          const result = await resellers.setGateway(accountId, rail, parsedForm.credentials, visit.cause)
          return result.outcome === 'refused'
            ? refused({ form: toSentence(result.refusal.message) }, 409)
            : goTo(
                `${root}/${rail}`,
                `${providerForms[provider].name} is set up. Create a test invoice to check the credentials.`,
              )
        },
      },
    }),
    resellerPage({
      path: `${root}/{rail}/remove`,
      name: 'removeGateway',
      summary: 'Removes the gateway of a reseller',
      confirmed: true,
      show: async (visit) => {
        const rail = railIn(visit)
        const method = methodName(rail)
        return {
          title: `Remove payments by ${method}`,
          body: html`<p>Your customers can no longer pay by ${method}: orders without enough credit are refused without a pay page. Open invoices are still processed as long as their credentials work at the provider.</p>
${formOf(visit.form, { submit: `Remove payments by ${method}`, danger: true, back: `${root}/${rail}`, backLabel: 'Keep them' })}`,
          cliEquivalents: [command(visit, rail, '--remove')],
        }
      },
      act: {
        run: async (visit) => {
          const rail = railIn(visit)
          const result = await resellers.setGateway(visit.account.accountId, rail, null, visit.cause)
          if (result.outcome === 'refused') throw refuse('reseller_forbidden', result.refusal.message)
          return goTo(`${root}/${rail}`, `The gateway for payments by ${methodName(rail)} is removed.`)
        },
      },
    }),
  ]
}

import type { Provider } from '../../domain/payments/payments.ts'
import { ApiError } from '../../platform/http/errors.ts'
import { refusalOf } from '../../platform/ui/answer-page.ts'
import {
  choicesOf,
  type Field,
  type FormInput,
  type FormState,
  fieldOf,
  type Problems,
} from '../../platform/ui/form.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { type GatewayCredentials, realCredentials } from '../payments/index.ts'

/** A field of a provider's credentials and its check. */
type CredentialField = Pick<Field, 'name' | 'label' | 'hint'> & {
  /** It is never shown again after it was sent. */
  readonly secret: boolean
  readonly problem: string
}

const secret = (name: string, label: string, hint: string, problem: string): CredentialField => ({
  name,
  label,
  hint,
  secret: true,
  problem,
})
const open = (name: string, label: string, hint: string, problem: string): CredentialField => ({
  ...secret(name, label, hint, problem),
  secret: false,
})

const token = 'Type 1 to 500 characters without a space.'

/** Names and credential fields of the providers. The field names are those of `credentialShapes`. */
export const providerForms: Readonly<
  Record<
    Provider,
    { readonly name: string; readonly callbacks: string | null; readonly fields: readonly CredentialField[] }
  >
> = {
  stripe: {
    name: 'Stripe',
    callbacks: 'a webhook endpoint with the events checkout.session.* and charge.dispute.*',
    fields: [
      secret(
        'secretKey',
        'Secret or restricted key',
        'Begins with sk_ or rk_. A restricted key needs write access to Checkout Sessions and read access to disputes.',
        'Type the key as Stripe shows it: it begins with sk_live_, sk_test_, rk_live_ or rk_test_.',
      ),
      secret(
        'webhookSecret',
        'Signing secret of the webhook endpoint',
        'Begins with whsec_.',
        'Type the secret as Stripe shows it: it begins with whsec_.',
      ),
    ],
  },
  btcpay: {
    name: 'BTCPay Server',
    callbacks: 'a webhook of the store, for every event',
    fields: [
      open(
        'url',
        'Address of the server',
        'Such as https://pay.example.com.',
        'Type an https address without a user name or a query, such as https://pay.example.com.',
      ),
      open('storeId', 'Store ID', 'In the settings of the store.', 'Type 1 to 100 letters and digits.'),
      secret('apiKey', 'API key', 'With the rights to create and to read invoices of the store.', token),
      secret('webhookSecret', 'Secret of the webhook', 'Of the store’s webhook.', token),
    ],
  },
  nowpayments: {
    name: 'NOWPayments',
    callbacks: null,
    fields: [
      secret('apiKey', 'API key', 'In the settings of the account.', token),
      secret('ipnSecret', 'IPN secret', 'Signs the callbacks.', token),
      open(
        'email',
        'E-mail of the account',
        'Finds payments whose callback was lost.',
        'Type an e-mail address.',
      ),
      secret(
        'password',
        'Password of the account',
        'Finds payments whose callback was lost.',
        'Type 1 to 500 characters.',
      ),
    ],
  },
}

/** The fields of a provider. The sandbox is offered if this installation runs one. */
export const gatewayFields = (provider: Provider, sandboxed: boolean, form: FormState): Html => html`${
  sandboxed
    ? choicesOf(
        {
          name: 'with',
          legend: 'Mode',
          choices: [
            { value: 'real', label: 'Live', hint: 'with the credentials below' },
            {
              value: 'sandbox',
              label: 'Sandbox',
              hint: 'the sandbox provider of this installation; leave the fields below empty',
            },
          ],
          chosen: ['real'],
          one: true,
        },
        form,
      )
    : null
}
${providerForms[provider].fields.map(({ name, label, hint, secret: hidden }) =>
  fieldOf(
    {
      name,
      label,
      ...(hint !== undefined && { hint }),
      type: hidden ? 'password' : 'text',
      autocomplete: 'off',
      maxlength: 2_000,
    },
    form,
  ),
)}`

/** The typed credentials, or a problem for each invalid field. Problems never contain the typed value. */
export const parseGatewayForm = (
  provider: Provider,
  sandboxed: boolean,
  typed: FormInput,
): { readonly credentials: GatewayCredentials } | { readonly problems: Problems } => {
  const { fields } = providerForms[provider]
  if (sandboxed && typed.text('with') === 'sandbox') {
    const filled = fields.filter(({ name }) => typed.text(name) !== '')
    return filled.length === 0
      ? { credentials: { provider, sandbox: true } }
      : {
          problems: Object.fromEntries(
            filled.map(({ name }) => [name, 'The sandbox needs no credentials: leave this empty.']),
          ),
        }
  }
  const fieldTexts = Object.fromEntries(fields.map(({ name }) => [name, typed.text(name)]))
  const read = realCredentials.safeParse({ provider, ...fieldTexts })
  if (read.success) return { credentials: read.data }
  const invalidFields = new Set(read.error.issues.map(({ path }) => path[0]))
  return {
    problems: Object.fromEntries(
      fields.filter(({ name }) => invalidFields.has(name)).map(({ name, problem }) => [name, problem]),
    ),
  }
}

/** Why a test invoice was refused, for people. @throws errors that are no refusal */
export const invoiceRefusal = (error: unknown): string =>
  error instanceof ApiError && error.code === 'gateway_unavailable'
    ? 'The provider created no invoice: it did not respond, or it rejected the credentials. Check its log.'
    : refusalOf(error).text

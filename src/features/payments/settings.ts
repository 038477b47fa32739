import { z } from 'zod'
import { type Provider, providers } from '../../domain/payments/payments.ts'
import { trimEnd } from '../../kernel/formats.ts'
import { weakKey, weakText } from '../../platform/vault/secrets.ts'
import { credentialShapes, type GatewayCredentials } from './payment-port.ts'

const text = (expected: string) => z.string({ error: expected })
const address = (protocols: readonly string[], expected: string) =>
  text(expected).refine((value) => {
    if (!URL.canParse(value)) return false
    const { protocol, search, hash, username } = new URL(value)
    return protocols.includes(protocol) && search === '' && hash === '' && username === ''
  }, expected)

const port = 'a whole number from 0 to 65535'

/** The settings of payments: a part of the schema in `src/app/config.ts`. */
export const paymentSettings = {
  FAREBOX_PUBLIC_URL: address(['https:', 'http:'], 'an address such as https://shop.example.com')
    .transform((url) => trimEnd(url, '/'))
    .optional()
    .describe('The public address of this service: payment callbacks and returning payers use it.'),
  FAREBOX_MERCHANT_NAME: text('a text of 1 to 60 characters')
    .regex(/^[^\p{C}]{1,60}$/u, 'a text of 1 to 60 characters')
    .prefault('Farebox')
    .describe('The name of the service on its payment pages.'),
  FAREBOX_STRIPE_SECRET_KEY: text('sk_… or rk_…')
    .optional()
    .describe('Cards and local rails: Stripe Checkout.'),
  FAREBOX_STRIPE_WEBHOOK_SECRET: text('whsec_…')
    .optional()
    .describe('The secret of the Stripe webhook endpoint at {FAREBOX_PUBLIC_URL}/callbacks/service-stripe.'),
  FAREBOX_STRIPE_ADAPTIVE_PRICING: z
    .enum(['off', 'on'], { error: 'off or on' })
    .prefault('off')
    .describe(
      'on: Stripe lets payers pay in their own currency (Adaptive Pricing). Farebox credits the invoiced dollars either way.',
    ),
  FAREBOX_BTCPAY_URL: text('an https address')
    .optional()
    .describe('Crypto: the address of your BTCPay Server.'),
  FAREBOX_BTCPAY_API_KEY: text('a text')
    .optional()
    .describe(
      'The API key of the BTCPay Server, with btcpay.store.cancreateinvoice and btcpay.store.canviewinvoices.',
    ),
  FAREBOX_BTCPAY_STORE_ID: text('letters and digits')
    .optional()
    .describe('The id of the store on the BTCPay Server.'),
  FAREBOX_BTCPAY_WEBHOOK_SECRET: text('a text')
    .optional()
    .describe('The secret of the store webhook at {FAREBOX_PUBLIC_URL}/callbacks/service-btcpay.'),
  FAREBOX_NOWPAYMENTS_API_KEY: text('a text')
    .optional()
    .describe('Crypto, without a BTCPay Server: NOWPayments.'),
  FAREBOX_NOWPAYMENTS_IPN_SECRET: text('a text')
    .optional()
    .describe('The IPN secret key of the NOWPayments account.'),
  FAREBOX_NOWPAYMENTS_EMAIL: text('an e-mail address')
    .optional()
    .describe('The e-mail address of the NOWPayments account, for listing payments with lost callbacks.'),
  FAREBOX_NOWPAYMENTS_PASSWORD: text('a text')
    .optional()
    .describe('The password of the NOWPayments account.'),
  FAREBOX_SANDBOX: z
    .enum(['auto', 'off'], { error: 'auto or off' })
    .prefault('auto')
    .describe(
      "auto: stand-ins for the payment providers and the scrapers' provider, on the demo and without real credentials.",
    ),
  FAREBOX_SANDBOX_PORT: text(port)
    .regex(/^\d{1,5}$/, port)
    .transform(Number)
    .refine((value) => value <= 65_535, port)
    .optional()
    .describe('The loopback port of the stand-ins; default: the one after PORT, or a free one.'),
  FAREBOX_SANDBOX_URL: address(['http:'], 'an address such as http://127.0.0.1:3001')
    .refine(
      (value) => ['127.0.0.1', '[::1]', 'localhost'].includes(new URL(value).hostname),
      'a loopback address',
    )
    .optional()
    .describe('Running stand-ins on this machine, instead of own ones.'),
  FAREBOX_DEPOSIT_LOOK_MS: text('a whole number from 100 to 3600000')
    .regex(/^\d{3,7}$/, 'a whole number from 100 to 3600000')
    .transform(Number)
    .refine((value) => value >= 100 && value <= 3_600_000, 'a whole number from 100 to 3600000')
    .prefault('120000')
    .describe('The time until a deposit is first polled at its provider, in case its callback was lost.'),
} as const

type Values = z.output<z.ZodObject<typeof paymentSettings>>

/** The settings whose values are never shown. */
export const paymentSecrets: readonly string[] = [
  'FAREBOX_STRIPE_SECRET_KEY',
  'FAREBOX_STRIPE_WEBHOOK_SECRET',
  'FAREBOX_BTCPAY_API_KEY',
  'FAREBOX_BTCPAY_WEBHOOK_SECRET',
  'FAREBOX_NOWPAYMENTS_API_KEY',
  'FAREBOX_NOWPAYMENTS_IPN_SECRET',
  'FAREBOX_NOWPAYMENTS_PASSWORD',
]

export type PaymentConfig = {
  /** Without a trailing slash; null: the address that this process listens on. */
  readonly publicUrl: string | null
  readonly merchantName: string
  /** The service's own real gateways. */
  readonly gateways: readonly GatewayCredentials[]
  /** The sandbox settings; null if it may not run, such as together with real credentials. */
  readonly sandbox: { readonly port: number | null; readonly url: string | null } | null
  readonly depositPollMs: number
  /** Whether Stripe lets payers pay in their own currency. */
  readonly adaptivePricing: boolean
}

/** The providers of the sandbox: cards first, then the crypto gateways by preference. */
export const sandboxProviders: readonly Provider[] = ['stripe', 'btcpay']

export const serviceGatewayId = (provider: string): string => `service-${provider}`
export const sandboxGatewayId = (provider: string): string => `sandbox-${provider}`

/** The ids of the service's own gateways. */
export const gatewayIdsOf = ({
  gateways,
  sandbox,
}: {
  readonly gateways: readonly { readonly provider: string }[]
  readonly sandbox: object | null
}): readonly string[] => {
  if (gateways.length > 0) return gateways.map(({ provider }) => serviceGatewayId(provider))
  return sandbox === null ? [] : sandboxProviders.map(sandboxGatewayId)
}

/** The settings of each provider, by the field of its credentials. */
const fields = {
  stripe: { secretKey: 'FAREBOX_STRIPE_SECRET_KEY', webhookSecret: 'FAREBOX_STRIPE_WEBHOOK_SECRET' },
  btcpay: {
    url: 'FAREBOX_BTCPAY_URL',
    apiKey: 'FAREBOX_BTCPAY_API_KEY',
    storeId: 'FAREBOX_BTCPAY_STORE_ID',
    webhookSecret: 'FAREBOX_BTCPAY_WEBHOOK_SECRET',
  },
  nowpayments: {
    apiKey: 'FAREBOX_NOWPAYMENTS_API_KEY',
    ipnSecret: 'FAREBOX_NOWPAYMENTS_IPN_SECRET',
    email: 'FAREBOX_NOWPAYMENTS_EMAIL',
    password: 'FAREBOX_NOWPAYMENTS_PASSWORD',
  },
} as const satisfies Record<Provider, Readonly<Record<string, keyof typeof paymentSettings>>>

type Environment = Readonly<Record<string, string | undefined>>

const credentialValues = (provider: Provider, env: Environment): Record<string, string> =>
  Object.fromEntries(
    Object.entries(fields[provider]).flatMap(([field, name]) =>
      env[name] === undefined ? [] : [[field, env[name]]],
    ),
  )

/**
 * Problems of the settings as a whole: incomplete credentials of a provider, or a sandbox or development setting
 * together with real credentials.
 * @param hasOther whether another feature has real credentials, which forbid the same settings
 */
export const paymentProblems = (env: Environment, hasOther: boolean): string[] => {
  const problems = providers.flatMap((provider) => {
    const credentials = credentialValues(provider, env)
    if (Object.keys(credentials).length === 0) return []
    const checked = credentialShapes[provider].safeParse(credentials)
    return (checked.error?.issues ?? []).map(({ path }) => {
      const name = (fields[provider] as Record<string, string>)[String(path[0])] ?? provider
      return env[name] === undefined
        ? `${name} is required with the other settings of ${provider}`
        : `${name} does not have the form of ${provider}'s; its value is not shown`
    })
  })
  const hasRealCredentials = providers.some(
    (provider) => Object.keys(credentialValues(provider, env)).length > 0,
  )
  const isReal = hasRealCredentials || hasOther
  if (isReal && env.FAREBOX_SANDBOX_URL !== undefined)
    problems.push('FAREBOX_SANDBOX_URL is refused beside credentials of a real provider')
  if (hasRealCredentials && !env.FAREBOX_PUBLIC_URL?.startsWith('https://'))
    problems.push("FAREBOX_PUBLIC_URL is required with a provider's credentials: https, for its callbacks")
  return isReal ? [...problems, ...problemsWithRealCredentials(env)] : problems
}

/** Settings that are refused with real credentials: development settings, and secrets that can be guessed. */
const problemsWithRealCredentials = (env: Environment): string[] => {
  const problems = developmentSettings
    .filter((name) => !isOff(env[name]))
    .map((name) => `${name} is for development and is refused beside credentials of a real provider`)
  if (env.FAREBOX_RATE_LIMIT === 'off')
    problems.push('FAREBOX_RATE_LIMIT=off is refused beside credentials of a real provider')
  if (env.FAREBOX_DEMO !== 'off')
    problems.push(
      'FAREBOX_DEMO must be off beside credentials of a real provider: the demo has accounts whose keys are in a file',
    )
  const { FAREBOX_MASTER_KEY: master, FAREBOX_SEAL_KEY: seal, FAREBOX_METRICS_TOKEN: token } = env
  for (const [name, value] of Object.entries({ FAREBOX_MASTER_KEY: master, FAREBOX_SEAL_KEY: seal })) {
    const weakness = value === undefined ? null : weakKey(Buffer.from(value, 'base64'))
    if (weakness !== null)
      problems.push(`${name} ${weakness}, so it can be guessed: make one with \`openssl rand -base64 32\``)
  }
  if (master !== undefined && master === seal)
    problems.push('FAREBOX_MASTER_KEY and FAREBOX_SEAL_KEY are the same: each needs a key of its own')
  const tokenWeakness = token === undefined ? null : weakText(token)
  if (tokenWeakness !== null)
    problems.push(
      `FAREBOX_METRICS_TOKEN ${tokenWeakness}, so it can be guessed: make one with \`openssl rand -hex 16\``,
    )
  return problems
}

const developmentSettings = [
  'FAREBOX_WEBHOOK_ALLOW_LOOPBACK',
  'FAREBOX_GATEWAY_ALLOW_LOOPBACK',
  'FAREBOX_CLOCK_OFFSET_MS',
  'FAREBOX_CRASH_AT',
] as const

/** Whether a setting is absent or has its default value. */
const isOff = (value: string | undefined): boolean =>
  value === undefined || value === 'off' || Number(value) === 0

/** The effective settings. Expects settings without problems. */
export const paymentConfigOf = (values: Values, demo: boolean): PaymentConfig => {
  const gateways = providers.flatMap((provider): GatewayCredentials[] => {
    const credentials = credentialValues(provider, values as unknown as Environment)
    return Object.keys(credentials).length === 0
      ? []
      : [{ provider, ...credentials } as unknown as GatewayCredentials]
  })
  const url = values.FAREBOX_SANDBOX_URL ?? null
  const isSandboxWanted = gateways.length === 0 && values.FAREBOX_SANDBOX === 'auto' && (demo || url !== null)
  return {
    publicUrl: values.FAREBOX_PUBLIC_URL ?? null,
    merchantName: values.FAREBOX_MERCHANT_NAME,
    gateways,
    sandbox: isSandboxWanted ? { port: values.FAREBOX_SANDBOX_PORT ?? null, url } : null,
    depositPollMs: values.FAREBOX_DEPOSIT_LOOK_MS,
    adaptivePricing: values.FAREBOX_STRIPE_ADAPTIVE_PRICING === 'on',
  }
}

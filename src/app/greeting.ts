import { join } from 'node:path'
import type { DemoFile } from './demo/demo-file.ts'

/**
 * Shell commands to copy: a quote, a plan, a request through it, addresses, and lists of the results. Shell variables
 * pass values from one command to the next.
 */
export const tour = ({ baseUrl, buyer, scraper }: DemoFile, gateway: boolean): string => {
  const api = `${baseUrl}/api/v1`
  const get = (path: string): string => `curl -s '${api}${path}' -H "X-API-Key: $KEY"`
  const post = (path: string, key: string, body: object): string =>
    `${get(path)} -H 'Content-Type: application/json' -H 'Idempotency-Key: ${key}' -d '${JSON.stringify(body)}'`
  const read = (expression: string): string => `node -p "JSON.parse(fs.readFileSync(0)).${expression}"`
  const requestExample = `
# send a request through the plan; the answer names the exit
PLAN=$(${get('/plans?product=residential-premium')} | ${read('plans[0].planId')})
LINE=$(curl -s "${api}/plans/$PLAN/generate" -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '{"country":"us","format":"url"}' | ${read('lines[0]')})
curl -s -x "$LINE" http://whoami.sandbox/
`
  return `KEY=${buyer.key}

# the price of 5 GB of residential traffic
${get('/products/residential-premium/price?quantity=5')}

# buy a plan of 5 GB
${post('/orders', 'tour-plan', { product_id: 'residential-premium', quantity: 5 })}
${gateway ? requestExample : ''}
# buy three dedicated addresses in the USA for 30 days
${post('/orders', 'tour-addresses', { product_id: 'isp-static', quantity: 3, fulfillment_meta: { country: 'USA', period_days: 30 } })}

# list the orders, the plan, the addresses and the balance
${get('/orders')}
${get('/plans')}
${get('/proxies')}
${get('/wallet')}

# fetch public data for $0.0030; a repeated X-Request-Id returns the same answer and costs nothing
SCRAPE_KEY=${scraper.key}
curl -s '${baseUrl}/v1/scrape/tiktok/profile' -H "X-API-Key: $SCRAPE_KEY" -H 'Content-Type: application/json' -H 'X-Request-Id: tour-scrape' -d '{"handle":"nasa"}'
curl -s '${api}/wallet/transactions?limit=2' -H "X-API-Key: $SCRAPE_KEY"

# free tools need no key: live public proxies; MCP clients use ${baseUrl}/mcp
curl -s '${baseUrl}/api/proxy-list?format=txt&protocol=socks5'`
}

/** The demo keys. Only the start that created them shows them. */
export const keyLines = (demo: DemoFile, file: string): string =>
  `Demo accounts (stored in ${file}):
  buyer     ${demo.buyer.accountId}  ${demo.buyer.key}
  reseller  ${demo.reseller.accountId}  ${demo.reseller.key}
  scraper   ${demo.scraper.accountId}  ${demo.scraper.key}
            key to pay in and to order           ${demo.scraper.walletKey}`

/** The console's address, and sign-in links for the demo's accounts. */
export type ConsoleStart = {
  readonly url: string
  readonly links: readonly { readonly role: string; readonly url: string }[]
}

/** The result of a start. */
export type Started = {
  /** Null without the role `http`. */
  readonly baseUrl: string | null
  readonly dataDir: string
  /** Null without a demo. `fresh`: this start created its keys. */
  readonly demo: { readonly demo: DemoFile; readonly fresh: boolean } | null
  /** The console, with single-use sign-in links for the demo's accounts; null without the role `http`. */
  readonly console: ConsoleStart | null
  /** The address of the gateway, such as `127.0.0.1:9000`; null: no gateway runs here. */
  readonly gateway: string | null
  /** The log is empty. */
  readonly empty: boolean
}

const consoleLines = (console: ConsoleStart | null): readonly (readonly [string, string])[] =>
  console === null
    ? []
    : [
        ['console', console.url],
        ...console.links.map(({ role, url }) => ['', `${role}, signed in once: ${url}`] as const),
      ]

const addressLines = (baseUrl: string, { dataDir, demo, gateway, console }: Started): string =>
  [
    ['API', `${baseUrl}/api/v1, described at ${baseUrl}/docs`],
    ...consoleLines(console),
    ...(demo
      ? [
          ['demo keys', join(dataDir, 'demo.json')],
          ...(demo.demo.sandbox === null
            ? []
            : [['sandbox', `${demo.demo.sandbox}: simulated payments, no real money`]]),
        ]
      : []),
    ...(gateway === null ? [] : [['gateway', `${gateway}, for HTTP and SOCKS5`]]),
    ['commands', 'bin/farebox --help, in another terminal with the same settings'],
  ]
    .map(([name = '', what = '']) => `  ${name.padEnd(9)}  ${what}`)
    .join('\n')

/** Shell commands to copy that create the first customer of a service without a demo. */
const firstSteps = `There are no products and no accounts yet. In another terminal with the same settings, in the
directory of Farebox:

# import products and prices; docs/operations/catalog.md describes the file
bin/farebox catalog import catalog.json

# a customer, with a key (it is shown this once) and with money
ACCOUNT=$(bin/farebox accounts create --email customer@example.com --json | node -p "JSON.parse(fs.readFileSync(0)).accountId")
bin/farebox keys create --account "$ACCOUNT" --scopes buy
bin/farebox wallet credit --account "$ACCOUNT" --cents 10000 --kind payment --reference "first payment"

docs/operations/ goes on from there: payment providers, stock, backups.`

const nextSteps = (started: Started): string => {
  const { demo, dataDir, empty } = started
  if (demo?.fresh)
    return `${keyLines(demo.demo, join(dataDir, 'demo.json'))}\n\nTo try it, paste into another terminal:\n\n${tour(demo.demo, started.gateway !== null)}\n\n`
  return demo === null && empty ? `${firstSteps}\n\n` : ''
}

/** The text for people after a start. It shows keys only if this start created them. The address is the last line. */
export const greeting = (started: Started): string => {
  const { baseUrl } = started
  if (baseUrl === null) return 'Farebox runs'
  return `\n${nextSteps(started)}${addressLines(baseUrl, started)}\n\nFarebox listens on ${baseUrl}`
}

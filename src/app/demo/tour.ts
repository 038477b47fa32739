import type { DemoFile } from './file.ts'

/**
 * Lines to copy: a quote, a plan, a request through it, addresses, and what they became. Shell variables carry what one
 * call needs of another.
 */
export const tour = ({ baseUrl, buyer, scraper }: DemoFile, gateway: boolean): string => {
  const api = `${baseUrl}/api/v1`
  const get = (path: string): string => `curl -s '${api}${path}' -H "X-API-Key: $KEY"`
  const post = (path: string, key: string, body: object): string =>
    `${get(path)} -H 'Content-Type: application/json' -H 'Idempotency-Key: ${key}' -d '${JSON.stringify(body)}'`
  const read = (expression: string): string => `node -p "JSON.parse(fs.readFileSync(0)).${expression}"`
  const useIt = `
# send a request through it; what answers says by which exit it came
PLAN=$(${get('/plans?product=residential-premium')} | ${read('plans[0].planId')})
LINE=$(curl -s "${api}/plans/$PLAN/generate" -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '{"country":"us","format":"url"}' | ${read('lines[0]')})
curl -s -x "$LINE" http://whoami.sandbox/
`
  return `KEY=${buyer.key}

# the price of 5 GB of residential traffic
${get('/products/residential-premium/price?quantity=5')}

# buy it: a plan
${post('/orders', 'tour-plan', { product_id: 'residential-premium', quantity: 5 })}
${gateway ? useIt : ''}
# buy three dedicated addresses in the USA for 30 days
${post('/orders', 'tour-addresses', { product_id: 'isp-static', quantity: 3, fulfillment_meta: { country: 'USA', period_days: 30 } })}

# what it became: orders, the plan, the addresses, the balance
${get('/orders')}
${get('/plans')}
${get('/proxies')}
${get('/wallet')}

# fetch public data for $0.0030; the same X-Request-Id again gives the same answer and costs nothing
SCRAPE_KEY=${scraper.key}
WALLET_KEY=${scraper.walletKey}
curl -s '${baseUrl}/v1/scrape/tiktok/profile' -H "X-API-Key: $SCRAPE_KEY" -H 'Content-Type: application/json' -H 'X-Request-Id: tour-scrape' -d '{"handle":"nasa"}'
curl -s '${api}/wallet/transactions?limit=2' -H "X-API-Key: $WALLET_KEY"

# free for everybody, without a key: live public proxies; assistants find the same tools at ${baseUrl}/mcp
curl -s '${baseUrl}/api/proxy-list?format=txt&protocol=socks5'`
}

/** The keys, shown at the start that made them. */
export const keyLines = (demo: DemoFile, file: string): string =>
  `Demo accounts (kept in ${file}):
  buyer     ${demo.buyer.accountId}  ${demo.buyer.key}
  reseller  ${demo.reseller.accountId}  ${demo.reseller.key}
  scraper   ${demo.scraper.accountId}  ${demo.scraper.key}
            its wallet is read with              ${demo.scraper.walletKey}`

import type { DemoFile } from './file.ts'

/** Lines to copy: a quote, a plan, addresses, and what they became. Shell variables carry what one call needs of another. */
export const tour = ({ baseUrl, buyer }: DemoFile): string => {
  const api = `${baseUrl}/api/v1`
  const get = (path: string): string => `curl -s '${api}${path}' -H "X-API-Key: $KEY"`
  const post = (path: string, key: string, body: object): string =>
    `${get(path)} -H 'Content-Type: application/json' -H 'Idempotency-Key: ${key}' -d '${JSON.stringify(body)}'`
  return `KEY=${buyer.key}

# the price of 5 GB of residential traffic
${get('/products/residential-premium/price?quantity=5')}

# buy it: a plan
${post('/orders', 'tour-plan', { product_id: 'residential-premium', quantity: 5 })}

# buy three dedicated addresses in the USA for 30 days
${post('/orders', 'tour-addresses', { product_id: 'isp-static', quantity: 3, fulfillment_meta: { country: 'USA', period_days: 30 } })}

# what it became: orders, the plan, the addresses, the balance
${get('/orders')}
${get('/plans')}
${get('/proxies')}
${get('/wallet')}`
}

/** The keys, shown at the start that made them. */
export const keyLines = (demo: DemoFile, file: string): string =>
  `Demo accounts (kept in ${file}):
  buyer     ${demo.buyer.accountId}  ${demo.buyer.key}
  reseller  ${demo.reseller.accountId}  ${demo.reseller.key}
  scraper   ${demo.scraper.accountId}  ${demo.scraper.key}`

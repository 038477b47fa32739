/** The text at the head of the interface description (Markdown). */
export const description = `Farebox sells proxies from a prepaid wallet.

- **Money** is whole cents in USD: \`120\` is $1.20.
- **Keys** go into \`X-API-Key\` or \`Authorization: Bearer\`. A key carries scopes: \`buy\` orders and reads, \`scrape\` runs the scrapers. Whoever runs the service makes keys: \`npx farebox keys create\`.
- **Errors** are \`{ "error", "code", "requestId" }\`. Branch on \`code\`. Nothing is charged by a request that is refused.
- **Retries** are safe: send the same \`Idempotency-Key\` again. \`429\` and \`503\` say in \`Retry-After\` when.
- **Bodies** are strict: a field that an operation does not read is \`400 unknown_field\`.
- **Lists** take \`limit\` and \`offset\` and answer \`total\`, newest first.
- **Resellers** name a customer in \`X-Reseller-Customer-Id\`, or in \`customer_id\` of the query: what is read or changed is then that customer's alone.
- **Reads follow writes**: a read shows what the same account wrote before. Over several processes, send back \`X-Farebox-Position\` from the answer of the write.
- **Positions** of the log are opaque texts, such as \`pos_0_1284\`: send one back as it came, and compare for equality only.
- **Order** is promised within an account only: nothing says which of two accounts' events came first.
- **Paths** have no slash at their end: with one they are redirected (\`308\`) to the path without it.
- **Request ids**: send your own in \`X-Request-Id\` (letters, digits, \`._:-\`, at most 128) or get one; every answer carries it.`

/** A word on each group of operations. */
export const tagDescriptions: Readonly<Record<string, string>> = {
  Account: 'Who a key belongs to, its wallet and what moved in it.',
  Catalog: 'Products, their prices and what can be ordered now.',
  Deposits: 'Topping up the wallet, or the credit of a customer, on a hosted page.',
  Orders: 'Buying from the wallet, and what became of it.',
  Plans: 'Traffic and time that were bought: what is left, labels, top-ups.',
  Proxies: 'Rented addresses: credentials, labels, extensions.',
  Webhooks:
    'Where to send events, and what became of what was sent. Every event stands under Webhooks below.',
  'Free tools':
    'Live public proxies, a check of any proxy, look-ups of addresses and the networks behind them. They need no key and ignore one.',
  Scrapers:
    'Public data of platforms, call by call: each is charged by what comes of it, and a retry with the same `X-Request-Id` costs nothing.',
  Finance: 'The books, for finance: read-only, with a token of its own.',
  Resellers: 'Customers of resellers, what was earned with them, and statements that lead back to the log.',
  Service: 'The service itself.',
}

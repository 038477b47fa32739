import { pagePolicy, pageRoute } from '../../platform/http/docs/page-route.ts'
import { html } from '../../platform/http/html.ts'
import type { Route } from '../../platform/http/route.ts'

const style = `
:root { color-scheme: light dark; --paper: #fbfaf7; --card: #ffffff; --ink: #1d2321; --soft: #5f6a66; --line: #e4e1d9; --accent: #0a6b52; }
@media (prefers-color-scheme: dark) { :root { --paper: #101513; --card: #161d1a; --ink: #e3e9e6; --soft: #98a6a0; --line: #28322e; --accent: #5cc9a3; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 24px; background: var(--paper); color: var(--ink); font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 30rem; padding: 36px 40px; background: var(--card); border: 1px solid var(--line); border-top: 4px solid var(--accent); border-radius: 10px; }
h1 { font-size: 26px; line-height: 1.2; letter-spacing: -.015em; margin: 0 0 16px; }
p { margin: 0 0 12px; }
.soft { color: var(--soft); font-size: 14px; margin: 20px 0 0; }
@media (max-width: 30rem) { body { padding: 12px; } main { padding: 28px 22px; } }
`

/**
 * Payers come here from a provider's page, whether they paid or turned back: it says only what is true for all of them,
 * and names no shop, since customers of any reseller may come.
 */
const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>Back from the payment</title>
<style>${{ html: style }}</style>
</head>
<body>
<main>
<h1>You may close this page</h1>
<p>If you have paid, your payment is being confirmed. It counts as soon as the payment provider reports it: mostly within a minute, with crypto once the network has confirmed it.</p>
<p>There is nothing left to do here. Close this page, or go back to the shop.</p>
<p class="soft">If you left the payment page without paying, nothing was taken from you.</p>
</main>
</body>
</html>
`

/** Where a payer lands who was given no address of a shop. */
export const paidPath = '/paid'

/** `GET /paid`: a page for payers, the same for all, that runs and loads nothing. */
export const paidPageRoute: Route = pageRoute({
  path: paidPath,
  operationId: 'getPaidPage',
  summary: 'Where payers land',
  page: async () => ({ html: page.html, policy: pagePolicy({ style }) }),
})

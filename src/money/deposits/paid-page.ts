import { pageRoute } from '../../platform/http/page-route.ts'
import type { Route } from '../../platform/http/route.ts'
import { html } from '../../platform/pages/html.ts'
import { pageOf } from '../../platform/pages/page.ts'
import { base, colours } from '../../platform/pages/theme.ts'

const style = `${colours()}${base}
body { min-height: 100vh; display: grid; place-items: center; padding: 24px; }
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
const body = html`<main>
<h1>You may close this page</h1>
<p>If you have paid, your payment is being confirmed. It counts as soon as the payment provider reports it: mostly within a minute, with crypto once the network has confirmed it.</p>
<p>There is nothing left to do here. Close this page, or go back to the shop.</p>
<p class="soft">If you left the payment page without paying, nothing was taken from you.</p>
</main>`

/** Where a payer lands who was given no address of a shop. */
export const paidPath = '/paid'

/** `GET /paid`: a page for payers, the same for all, that runs and loads nothing. */
export const paidPageRoute: Route = pageRoute({
  path: paidPath,
  operationId: 'getPaidPage',
  summary: 'Where payers land',
  page: async () => pageOf({ title: 'Back from the payment', style, body, indexed: false }),
})

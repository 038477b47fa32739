import { type Html, html } from '../../pages/html.ts'
import { type Guide, guideList } from './guides.ts'

/** A command with its copy button. */
export const sample = (command: Html): Html =>
  html`<div class="sample"><button type="button" class="copy">Copy</button><pre><code>${command}</code></pre></div>`

/** The service's own address; the page's script puts the real one in. */
export const origin: Html = html`<span class="origin">http://127.0.0.1:3000</span>`

/** How to get a key, the first call, and the guides. */
export const startView = (guides: {
  readonly callers: readonly Guide[]
  readonly operators: readonly Guide[]
}): Html => html`<section class="start">
<h2 id="start">Start</h2>
<p>You need a key. Whoever runs the service makes it and shows it once:</p>
${sample(html`npx farebox keys create --account acc_… --scopes buy,scrape`)}
<p>On the demo of <code>npm start</code> the first start prints the keys of a buyer and a reseller, and writes them into <code>demo.json</code> in the data directory. The commands below take the key from the environment:</p>
${sample(html`export FAREBOX_KEY=fbx_…
curl '${origin}/api/v1/me' \\
  -H "X-API-Key: $FAREBOX_KEY"`)}
${
  guides.callers.length + guides.operators.length === 0
    ? null
    : html`<h3 id="guides">Guides</h3>
<div class="guides">${guides.callers.length === 0 ? null : html`<div><p>For programs that call the API</p>${guideList(guides.callers)}</div>`}
${guides.operators.length === 0 ? null : html`<div><p>For whoever runs the service</p>${guideList(guides.operators)}</div>`}</div>`
}
</section>`

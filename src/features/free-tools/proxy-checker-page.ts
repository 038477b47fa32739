import { addressSubject } from '../../kernel/ip-address.ts'
import { refusalOf } from '../../platform/ui/answer-page.ts'
import type { Assets } from '../../platform/ui/assets.ts'
import {
  emptyFormInput,
  type FormInput,
  type Problems,
  problemsOf,
  textAreaOf,
} from '../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { type ConsolePage, openPage, refusedView, show, type Visit } from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { stateText } from '../../platform/ui/text.ts'
import { anonymityText, attributionLine, countryText, networkPath } from '../free-list/index.ts'
import { type CheckProxies, type Finding, maxProxies, maxProxyText, proxyForms } from './check-proxies.ts'
import type { ProxyCheckResult } from './check-result.ts'

const description =
  'Checks whether proxies work: their protocols, how much they hide, where they come out and how quick they are. Free and without a key.'

const resultsOf = (results: readonly ProxyCheckResult[]): Html =>
  html`<h2>${results.filter(({ alive }) => alive).length} of ${results.length} work</h2>
${tableOf({
  caption: 'What the checks came to, in the order that was typed',
  rows: results,
  empty: nothing,
  columns: [
    { title: 'Proxy', head: true, cell: ({ proxy }) => html`<code class="id">${proxy}</code>` },
    {
      title: 'State',
      cell: ({ alive, detail, error }) =>
        alive ? stateText('works', 'good') : stateText(detail ?? error ?? 'does not work', 'bad'),
    },
    { title: 'Speaks', cell: ({ protocols }) => protocols.join(', ') },
    { title: 'Hides', cell: ({ alive, anonymity }) => (alive ? anonymityText(anonymity) : '') },
    { title: 'Comes out at', cell: ({ exit_ip }) => exit_ip ?? '' },
    {
      title: 'Where',
      cell: ({ exit_ip, country_code, asn }) =>
        exit_ip === null
          ? ''
          : html`${countryText(country_code)}${asn === null ? null : html` <a href="${networkPath(asn)}">AS${asn}</a>`}`,
    },
    {
      title: 'Takes, ms',
      number: true,
      cell: ({ latency_ms }) => (latency_ms === null ? '' : String(latency_ms)),
    },
    {
      title: 'Breaks TLS open',
      cell: ({ intercepts_tls }) => (intercepts_tls === null ? '' : intercepts_tls ? 'yes' : 'no'),
    },
  ],
})}`

/** The public proxy checker. */
export const proxyCheckerPages = ({
  checkProxies,
  island,
}: {
  readonly checkProxies: CheckProxies
  readonly island: Assets['island']
}): readonly ConsolePage[] => {
  const view = (typed: FormInput, problems: Problems, results: Html) => ({
    title: 'Proxy checker',
    indexed: {
      path: '/proxy-checker',
      description,
      data: { '@type': 'WebApplication', name: 'Proxy checker', description, isAccessibleForFree: true },
    },
    body: html`${problemsOf(problems)}
<fbx-proxy-checks><form method="post" action="/proxy-checker" class="stack" novalidate>
${textAreaOf({ name: 'proxies', label: 'Proxies', hint: `One a line, at most ${maxProxies}: ${proxyForms}. Passwords are used for the check and kept nowhere.` }, typed, problems)}
<div class="acts"><button class="first">Check them</button> <small>takes up to ten seconds</small></div>
</form>
<section data-live hidden><p class="said" role="status"></p>
<div class="table" role="region" aria-label="What the checks came to" tabindex="0"><table>
<caption>What the checks came to, as they come</caption>
<thead><tr><th scope="col">Proxy</th><th scope="col">State</th><th scope="col">Speaks</th><th scope="col">Hides</th><th scope="col">Comes out at</th><th scope="col">Where</th><th scope="col" class="number">Takes, ms</th></tr></thead>
<tbody></tbody>
</table></div></section></fbx-proxy-checks>
${results}
${attributionLine()}`,
    scripts: [island('proxy-checks')],
    same: [
      'curl "$SITE/api/proxy-check?proxy=203.0.113.7:8080"   # no key needed',
      `curl -N $SITE/api/proxy-check -H 'Content-Type: application/json' -H 'Accept: text/event-stream' -d '{"proxies":["203.0.113.7:8080"]}'`,
    ],
  })

  const check = async ({ browser }: Visit, typed: FormInput) => {
    const proxies = typed
      .text('proxies')
      .split(/\s+/)
      .filter((line) => line !== '')
    const inputProblem =
      proxies.length === 0 ||
      proxies.length > maxProxies ||
      proxies.some((text) => text.length > maxProxyText)
    if (inputProblem)
      return refusedView(
        view(typed, { proxies: `Type 1 to ${maxProxies} proxies, one a line: ${proxyForms}.` }, nothing),
      )
    try {
      const findings: Finding[] = []
      const caller = addressSubject(browser.address)
      const checks = await checkProxies({ proxies, caller, signal: new AbortController().signal })
      for await (const finding of checks) findings.push(finding)
      const results = findings.toSorted((a, b) => a.index - b.index).map(({ result }) => result)
      return show(view(typed, {}, resultsOf(results)))
    } catch (error) {
      const { text, status } = refusalOf(error)
      return refusedView(view(typed, { proxies: text }, nothing), status)
    }
  }

  return [
    openPage({
      path: '/proxy-checker',
      name: 'showProxyChecker',
      summary: 'Checks whether proxies work',
      nav: { label: 'Proxy checker', group: 'For everybody' },
      show: async () => show(view(emptyFormInput, {}, nothing)),
      act: { run: check },
    }),
  ]
}

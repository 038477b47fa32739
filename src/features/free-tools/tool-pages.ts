import { isIP } from 'node:net'
import { addressSubject } from '../../kernel/ip-address.ts'
import { refuseWithRetryAfter } from '../../platform/http/errors.ts'
import type { RouteLimit } from '../../platform/http/rate-limiter.ts'
import { refusalOf } from '../../platform/ui/answer-page.ts'
import { type FormInput, textAreaOf } from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { filterForm } from '../../platform/ui/list.ts'
import { type ConsolePage, openPage, refused, type Visit, viewWithStatus } from '../../platform/ui/page.ts'
import { detailsOf, tableOf } from '../../platform/ui/table.ts'
import { stateText } from '../../platform/ui/text.ts'
import { anonymityText, attributionLine, countryText, networkPath } from '../free-list/index.ts'
import { type CheckProxies, type Finding, maxProxies, maxProxyText, proxyForms } from './check-proxies.ts'
import type { ProxyCheckResult } from './check-result.ts'
import type { IpLookup, LookUp } from './ip-lookup.ts'

const lookupPath = '/ip-lookup'

const lookupHtml = (result: IpLookup): Html => {
  const { asn, latitude, longitude } = result
  return html`<h2>${result.ip}</h2>
${detailsOf([
  ['Version', `IPv${result.version}`],
  ['Reserved', result.reserved ? 'a private or reserved address; nothing else is known' : null],
  ['Country', result.country],
  ['State', result.state],
  ['City', result.city],
  ['Coordinates', latitude === null || longitude === null ? null : `${latitude}, ${longitude}`],
  ['Time zone', result.timezone],
  ['Network', asn === null ? null : html`<a href="${networkPath(asn)}">AS${asn}</a> ${result.asn_org ?? ''}`],
  ['Public proxy', result.is_proxy ? 'yes: one answered here in the last 24 hours' : 'none known'],
  ['In the live list', result.in_live_list ? html`yes: <a href="/free-proxies">the list</a>` : 'no'],
])}
${result.note === null ? null : html`<p class="soft">${result.note}.</p>`}`
}

const lookupDescription =
  'The location and the network of an IPv4 or IPv6 address, and whether it runs a public proxy. Free and without a key.'

/** Data about an address. Public. */
export const ipLookupPages = ({
  lookUp,
  lookupLimit,
}: {
  readonly lookUp: LookUp
  readonly lookupLimit: RouteLimit | null
}): readonly ConsolePage[] => {
  const view = (address: string, body: Html): View => ({
    title: 'IP lookup',
    indexed: {
      path: lookupPath,
      description: lookupDescription,
      data: {
        '@type': 'WebApplication',
        name: 'IP lookup',
        description: lookupDescription,
        isAccessibleForFree: true,
      },
    },
    body: html`${filterForm(lookupPath, { ip: { label: 'Address', hint: 'such as 8.8.8.8' } }, { ip: address }, 'Look up')}
${body}
${attributionLine()}`,
    cliEquivalents: [
      `curl "$SITE/api/ip-lookup?ip=${isIP(address) === 0 ? '8.8.8.8' : address}"   # no key needed`,
    ],
  })

  const problemView = (address: string, problem: string): View =>
    view(address, html`<p class="message bad" role="alert">${problem}</p>`)

  return [
    openPage({
      path: '/ip-lookup',
      name: 'showIpLookup',
      summary: 'Data about an IP address',
      show: async ({ query, browser }) => {
        const ip = (query.get('ip') ?? '').trim()
        if (ip !== '' && isIP(ip) === 0)
          return viewWithStatus(problemView(ip, 'Type an IPv4 or IPv6 address, such as 8.8.8.8.'), 400)
        try {
          const waitS = (await lookupLimit?.take(addressSubject(browser.address)))?.waitS ?? 0
          if (waitS > 0) throw refuseWithRetryAfter('rate_limited', 'too many look-ups; wait a moment', waitS)
          return view(ip, lookupHtml(await lookUp(ip === '' ? browser.address : ip)))
        } catch (error) {
          const { text, status } = refusalOf(error)
          return viewWithStatus(problemView(ip, text), status)
        }
      },
    }),
  ]
}

const checkerDescription =
  'Checks whether proxies work: their protocols, anonymity, exit location and latency. Free and without a key.'

const resultsOf = (results: readonly ProxyCheckResult[]): Html =>
  html`<h2>${results.filter(({ alive }) => alive).length} of ${results.length} work</h2>
${tableOf({
  caption: 'Results of the checks, in the typed order',
  rows: results,
  columns: [
    { title: 'Proxy', head: true, cell: ({ proxy }) => html`<code class="id">${proxy}</code>` },
    {
      title: 'State',
      cell: ({ alive, detail, error }) =>
        alive ? stateText('works', 'good') : stateText(detail ?? error ?? 'does not work', 'bad'),
    },
    { title: 'Protocols', cell: ({ protocols }) => protocols.join(', ') },
    { title: 'Anonymity', cell: ({ alive, anonymity }) => (alive ? anonymityText(anonymity) : '') },
    { title: 'Exit address', cell: ({ exit_ip }) => exit_ip },
    {
      title: 'Location',
      cell: ({ exit_ip, country_code, asn }) =>
        exit_ip === null
          ? ''
          : html`${countryText(country_code)}${asn === null ? null : html` <a href="${networkPath(asn)}">AS${asn}</a>`}`,
    },
    {
      title: 'Latency, ms',
      number: true,
      cell: ({ latency_ms }) => latency_ms,
    },
    {
      title: 'Intercepts TLS',
      cell: ({ intercepts_tls }) => (intercepts_tls === null ? '' : intercepts_tls ? 'yes' : 'no'),
    },
  ],
})}`

/** The public proxy checker. */
export const proxyCheckerPages = ({
  checkProxies,
}: {
  readonly checkProxies: CheckProxies
}): readonly ConsolePage[] => {
  const view = ({ form }: Visit, results: Html | null): View => ({
    title: 'Proxy checker',
    indexed: {
      path: '/proxy-checker',
      description: checkerDescription,
      data: {
        '@type': 'WebApplication',
        name: 'Proxy checker',
        description: checkerDescription,
        isAccessibleForFree: true,
      },
    },
    body: html`<fbx-proxy-checks><form method="post" action="/proxy-checker" class="stack" novalidate>
${textAreaOf({ name: 'proxies', label: 'Proxies', hint: `One per line, at most ${maxProxies}: ${proxyForms}. Passwords are used for the check and not stored.` }, form)}
<div class="actions"><button class="first">Check</button> <small>takes up to ten seconds</small></div>
</form>
<section data-live hidden><p class="message" role="status"></p>
<div class="table" role="region" aria-label="Results of the checks" tabindex="0"><table>
<caption>Results of the checks, as they arrive</caption>
<thead><tr><th scope="col">Proxy</th><th scope="col">State</th><th scope="col">Protocols</th><th scope="col">Anonymity</th><th scope="col">Exit address</th><th scope="col">Location</th><th scope="col" class="number">Latency, ms</th></tr></thead>
<tbody></tbody>
</table></div></section></fbx-proxy-checks>
${results}
${attributionLine()}`,
    islands: ['proxy-checks'],
    cliEquivalents: [
      'curl "$SITE/api/proxy-check?proxy=8.8.8.8:8080"   # no key needed',
      `curl -N $SITE/api/proxy-check -H 'Content-Type: application/json' -H 'Accept: text/event-stream' -d '{"proxies":["8.8.8.8:8080"]}'`,
    ],
  })

  const check = async (visit: Visit, typed: FormInput) => {
    const proxies = typed
      .text('proxies')
      .split(/\s+/)
      .filter((line) => line !== '')
    if (
      proxies.length === 0 ||
      proxies.length > maxProxies ||
      proxies.some((text) => text.length > maxProxyText)
    )
      return refused({ proxies: `Type 1 to ${maxProxies} proxies, one per line: ${proxyForms}.` })
    try {
      const findings: Finding[] = []
      const caller = addressSubject(visit.browser.address)
      const checks = await checkProxies({ proxies, caller, signal: new AbortController().signal })
      for await (const finding of checks) findings.push(finding)
      const results = findings.toSorted((a, b) => a.index - b.index).map(({ result }) => result)
      return view({ ...visit, form: { ...visit.form, typed } }, resultsOf(results))
    } catch (error) {
      const { text, status } = refusalOf(error)
      return refused({ proxies: text }, status)
    }
  }

  return [
    openPage({
      path: '/proxy-checker',
      name: 'showProxyChecker',
      summary: 'Checks whether proxies work',
      show: async (visit) => view(visit, null),
      act: { run: check },
    }),
  ]
}

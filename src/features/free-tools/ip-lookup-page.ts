import { isIP } from 'node:net'
import { addressSubject } from '../../kernel/ip-address.ts'
import { refuseWithRetryAfter } from '../../platform/http/errors.ts'
import type { RouteLimit } from '../../platform/http/route.ts'
import { refusalOf } from '../../platform/ui/answer-page.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { type ConsolePage, openPage, refusedView, show, type Visit } from '../../platform/ui/page.ts'
import { filtersOf } from '../../platform/ui/table.ts'
import { attributionLine, networkPath } from '../free-list/index.ts'
import type { IpLookup, LookUp } from './ip-lookup.ts'

const root = '/ip-lookup'

const factsOf = (lookupResult: IpLookup): Html => {
  const fact = (name: string, value: Html | string | null): Html =>
    value === null ? nothing : html`<dt>${name}</dt><dd>${value}</dd>\n`
  const { asn, latitude, longitude } = lookupResult
  return html`<h2>${lookupResult.ip}</h2>
<dl class="facts">
${fact('Version', `IPv${lookupResult.version}`)}
${fact('Reserved', lookupResult.reserved ? 'a private or reserved address: nothing else is known of it' : null)}
${fact('Country', lookupResult.country)}
${fact('State', lookupResult.state)}
${fact('City', lookupResult.city)}
${fact('Coordinates', latitude === null || longitude === null ? null : `${latitude}, ${longitude}`)}
${fact('Time zone', lookupResult.timezone)}
${fact('Network', asn === null ? null : html`<a href="${networkPath(asn)}">AS${asn}</a> ${lookupResult.asn_org ?? ''}`)}
${fact('Public proxy', lookupResult.is_proxy ? 'yes: one answered here in the last 24 hours' : 'none is known')}
${fact('In the live list', lookupResult.in_live_list ? html`yes: <a href="/free-proxies">the list</a>` : 'no')}
</dl>
${lookupResult.note === null ? null : html`<p class="soft">${lookupResult.note}.</p>`}`
}

const description =
  'Where an IPv4 or IPv6 address is, which network announces it, and whether a public proxy answers there. Free and without a key.'

/** Data about an address. Public. */
export const ipLookupPages = ({
  lookUp,
  lookupLimit,
}: {
  readonly lookUp: LookUp
  readonly lookupLimit: RouteLimit | null
}): readonly ConsolePage[] => {
  const view = (address: string, body: Html, problem: string | null) => ({
    title: 'IP lookup',
    indexed: {
      path: root,
      description,
      data: { '@type': 'WebApplication', name: 'IP lookup', description, isAccessibleForFree: true },
    },
    body: html`${problem === null ? null : html`<p class="said bad" role="alert">${problem}</p>`}
${filtersOf(root, [{ name: 'ip', label: 'Address', value: address, hint: 'such as 8.8.8.8' }])}
${body}
${attributionLine()}`,
    same: [`curl "$SITE/api/ip-lookup?ip=${isIP(address) === 0 ? '8.8.8.8' : address}"   # no key needed`],
  })

  const answer = async ({ query, browser }: Visit) => {
    const ipText = (query.get('ip') ?? '').trim()
    if (ipText !== '' && isIP(ipText) === 0)
      return refusedView(view(ipText, nothing, 'Type an IPv4 or IPv6 address, such as 8.8.8.8.'))
    try {
      const waitS = (await lookupLimit?.take(addressSubject(browser.address))) ?? 0
      if (waitS > 0) throw refuseWithRetryAfter('rate_limited', 'too many look-ups; wait a moment', waitS)
      return show(view(ipText, factsOf(await lookUp(ipText === '' ? browser.address : ipText)), null))
    } catch (error) {
      const { text, status } = refusalOf(error)
      return refusedView(view(ipText, nothing, text), status)
    }
  }

  return [
    openPage({
      path: '/ip-lookup',
      name: 'showIpLookup',
      summary: 'What is known of an IP address',
      nav: { label: 'IP lookup', group: 'For everybody' },
      show: answer,
    }),
  ]
}

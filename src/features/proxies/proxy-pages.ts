import type pg from 'pg'
import {
  type FoundProxy,
  type ProxyStatus,
  proxiesAfter,
  proxyStatuses,
} from '../../../projections/proxies.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import { type ReplaceReason, replaceReasons } from '../../domain/stock/events.ts'
import type { Clock } from '../../kernel/clock.ts'
import { isCountry } from '../../kernel/countries.ts'
import type { ProxyId } from '../../kernel/ids.ts'
import { isStorable } from '../../kernel/json-text.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import { refuse, refuseWithRetryAfter } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { refusalOf } from '../../platform/ui/answer-page.ts'
import {
  choicesOf,
  emptyFormInput,
  type FormInput,
  fieldOf,
  keyField,
  type Problems,
  problemsOf,
  textAreaOf,
} from '../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  goTo,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import { isViewing } from '../../platform/ui/page-access.ts'
import { filtersOf, pagedOf, pageRows, pagerOf, tableOf } from '../../platform/ui/table.ts'
import { afterOf, afterText, idText, stateText, timeText } from '../../platform/ui/text.ts'
import { maxLabelLength, setLabel } from '../../platform/vault/labels.ts'
import { rotateNow } from './action-routes.ts'
import type { CheckResult, ProxyChecks } from './check-proxy.ts'
import type { FindProxy, ProxyRecords } from './own-rentals.ts'
import { type ProxyRecord, proxyLine } from './proxy-record.ts'
import { maxComment, type ReplaceAddress, readReplacements } from './replace-address.ts'

export const root = '/console/addresses'

const families = ['isp', 'mobile', 'ipv4', 'ipv6'] as const

const proxyBadges: Readonly<Record<ProxyStatus, 'good' | 'warn' | 'off'>> = {
  active: 'good',
  expiring: 'warn',
  expired: 'off',
}
const addressState = (status: ProxyStatus): Html => stateText(status, proxyBadges[status])

const reasonWords: Readonly<Record<ReplaceReason, string>> = {
  not_working: 'It does not work',
  wrong_location: 'It is seen in another place',
  change_network: 'Another network is wanted',
  low_speed: 'It is slow',
  custom: 'Something else, as the comment says',
}

const wordIn = <const Word extends string>(words: readonly Word[], text: string | null): Word | undefined =>
  words.find((word) => word === text)

const placeText = ({ country, city }: Pick<ProxyRecord, 'country' | 'city'>): string =>
  city === null ? country : `${city}, ${country}`

type Checked = CheckResult & { readonly checkedAt: string }

const checkedView = ({ success, exitIp, elapsedMs, message, checkedAt }: Checked): Html =>
  html`<div class="said${success ? nothing : html` bad`}" role="status"><p>${message}</p><p class="soft">${exitIp === null ? 'No address was seen' : `The target saw ${exitIp}`} after ${elapsedMs} ms, ${timeText(checkedAt)}.</p></div>`

type Products = { current(): Pick<Catalog, 'resolve'> }

const productName = (catalog: Products, id: string): string => catalog.current().resolve(id)?.name ?? id

/** The rental of the path. @throws not_found */
export const ownRowOf = (findOwnProxy: FindProxy, { account, params }: AccountVisit): Promise<FoundProxy> =>
  findOwnProxy(wholeAccount(account.accountId), params.id ?? '', null)

type RecordReads = { readonly findOwnProxy: FindProxy; readonly proxyRecords: ProxyRecords }

/** The record of the rental of the path, in the renter's view. @throws not_found */
const ownRecordOf = async (
  { findOwnProxy, proxyRecords }: RecordReads,
  visit: AccountVisit,
): Promise<ProxyRecord> =>
  (await proxyRecords(visit.account.accountId, [await ownRowOf(findOwnProxy, visit)]))[0]!

/** The dedicated addresses of an account. */
export const addressListPages = ({
  db,
  reads,
  catalog,
  proxyRecords,
}: {
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
  readonly catalog: Products
  readonly proxyRecords: ProxyRecords
}): readonly ConsolePage[] => {
  const list = async ({ account, query, nowMs }: AccountVisit) => {
    const status = wordIn([...proxyStatuses, 'running'] as const, query.get('status'))
    const family = wordIn(families, query.get('family'))
    const typedCountry = (query.get('country') ?? '').trim().toUpperCase()
    const country = isCountry(typedCountry) ? typedCountry : undefined
    const before = query.get('before')
    const after = afterOf(before)
    await reads.settled(account.accountId)
    const scope = wholeAccount(account.accountId)
    const page = { after, limit: pageRows + 1 }
    const proxyRows = await proxiesAfter(db, scope, { status, family, country }, page, nowMs)
    const { rows, next } = pagedOf(proxyRows, (row) => afterText(row.createdAt, row.proxyId))
    const records = await proxyRecords(account.accountId, rows)
    const filter: Readonly<Record<string, string>> = {
      ...(status !== undefined && { status }),
      ...(family !== undefined && { family }),
      ...(country !== undefined && { country }),
    }
    const filtered = Object.keys(filter).length > 0 || after !== null
    const filterQuery = new URLSearchParams(filter).toString()
    return show({
      title: 'Addresses',
      body: html`${filtersOf(root, [
        {
          name: 'status',
          label: 'State',
          value: status ?? '',
          choices: [
            { value: '', label: 'any' },
            { value: 'running', label: 'running' },
            ...proxyStatuses.map((value) => ({ value, label: value })),
          ],
        },
        {
          name: 'family',
          label: 'Family',
          value: family ?? '',
          choices: [{ value: '', label: 'any' }, ...families.map((value) => ({ value, label: value }))],
        },
        { name: 'country', label: 'Country', value: country ?? '', hint: 'such as USA' },
      ])}
${tableOf({
  caption: 'Dedicated addresses, newest first',
  rows: records,
  empty: filtered
    ? html`<p>No address fits. <a href="${root}">Show all</a></p>`
    : html`<p>No address is rented yet: an order of a dedicated product brings them.</p>`,
  columns: [
    {
      title: 'Address',
      head: true,
      cell: ({ proxyId, ip, label }) =>
        html`<a href="${root}/${proxyId}">${ip}</a>${label === '' ? null : html`<br><small>${label}</small>`}`,
    },
    { title: 'Product', cell: ({ productId }) => productName(catalog, productId) },
    { title: 'Where', cell: placeText },
    { title: 'State', cell: ({ status: each }) => addressState(each) },
    ...(account.reseller
      ? [
          {
            title: 'For',
            cell: ({ customer, customerId }: ProxyRecord) => customer ?? customerId ?? 'yourself',
          },
        ]
      : []),
    { title: 'Since', cell: ({ createdAt }) => timeText(createdAt) },
    { title: 'Ends', cell: ({ expiresAt }) => timeText(expiresAt) },
  ],
})}
${pagerOf(root, filter, { before: after === null ? null : before, next })}`,
      same: [
        `curl "$API/proxies${filterQuery === '' || status === 'running' ? '' : `?${filterQuery}`}" -H "X-API-Key: $KEY"`,
        'curl "$API/proxies?format=txt" -H "X-API-Key: $KEY"   # one host:port:username:password a line',
      ],
    })
  }

  return [
    accountPage({
      path: '/console/addresses',
      name: 'showAddresses',
      summary: 'The dedicated addresses of the account',
      nav: { label: 'Addresses' },
      show: list,
    }),
  ]
}

/** The page of a dedicated address with its credentials. Its actions: label, check and rotate. */
export const addressPages = ({
  findOwnProxy,
  proxyRecords,
  catalog,
  pool,
  proxyChecks,
  clock,
}: RecordReads & {
  readonly catalog: Products
  readonly pool: pg.Pool
  readonly proxyChecks: ProxyChecks
  readonly clock: Clock
}): readonly ConsolePage[] => {
  const ownRow = (visit: AccountVisit) => ownRowOf(findOwnProxy, visit)
  const ownRecord = (visit: AccountVisit) => ownRecordOf({ findOwnProxy, proxyRecords }, visit)

  const labelForm = (
    visit: AccountVisit,
    { proxyId, label }: ProxyRecord,
    typed: FormInput,
    problems: Problems,
  ) =>
    html`<form method="post" action="${root}/${proxyId}" class="stack" novalidate>
${keyField(visit.formKey)}
${fieldOf(
  {
    name: 'label',
    label: 'Your label',
    hint: `At most ${maxLabelLength} characters. Empty: none.`,
    maxlength: maxLabelLength,
    value: label,
  },
  typed,
  problems,
)}
<div class="acts"><button name="do" value="label">Set the label</button></div>
</form>`

  const history = async ({ proxyId }: ProxyRecord): Promise<Html> => {
    const replaced = (await readReplacements(pool, [proxyId])).get(proxyId) ?? []
    if (replaced.length === 0) return nothing
    return html`<h2>Replaced</h2>
${tableOf({
  caption: 'Replacements, oldest first',
  rows: replaced,
  empty: nothing,
  columns: [
    { title: 'When', head: true, cell: ({ replacedAt }) => timeText(replacedAt) },
    { title: 'From', cell: ({ formerIp }) => formerIp },
    { title: 'To', cell: ({ ip }) => ip },
    { title: 'Why', cell: ({ reason }) => reason.replaceAll('_', ' ') },
    { title: 'Comment', cell: ({ comment }) => comment ?? '' },
  ],
})}`
  }

  const oneView = async (
    visit: AccountVisit,
    {
      typed = emptyFormInput,
      problems = {},
      checked = null,
    }: {
      readonly typed?: FormInput
      readonly problems?: Problems
      readonly checked?: Checked | null
    } = {},
  ) => {
    const proxy = await ownRecord(visit)
    const path = `${root}/${proxy.proxyId}`
    const isRunning = proxy.status !== 'expired'
    const actionForm = (actionValue: string, label: string) =>
      html`<form method="post" action="${path}" class="inline">${keyField(visit.formKey)}<button name="do" value="${actionValue}">${label}</button></form>`
    const detailRow = (name: string, value: Html | string | null): Html =>
      value === null ? nothing : html`<dt>${name}</dt><dd>${value}</dd>\n`
    return {
      title: proxy.ip,
      acts: isRunning
        ? html`${actionForm('check', 'Check it')}${proxy.rotation === 'by_link' ? actionForm('rotate', 'Rotate it') : null} <a class="button first" href="${path}/extend">Extend it</a> <a class="button" href="/console/orders/${proxy.orderId}/extend">Extend all of its order</a> <a class="button" href="${path}/replace">Replace it</a>`
        : html`<a href="${root}">All addresses</a>`,
      body: html`${problemsOf(problems)}${checked === null ? null : checkedView(checked)}
${isRunning && !isViewing(visit.visitor) ? html`<h2>Sign in with</h2><code class="secret">${proxyLine(proxy)}</code><p class="soft">Host, port, username and password, for HTTP and SOCKS5.</p>` : null}
<dl class="facts">
${detailRow('State', addressState(proxy.status))}
${detailRow('Rental', idText(proxy.proxyId))}
${detailRow('Product', productName(catalog, proxy.productId))}
${detailRow('Where', placeText(proxy))}
${detailRow('Network', proxy.asn === null ? null : `AS${proxy.asn}${proxy.asnOrg === null ? '' : ` ${proxy.asnOrg}`}`)}
${detailRow('Carrier', proxy.carrier)}
${detailRow('Rotation', proxy.rotation === null ? null : proxy.rotation === 'by_link' ? 'by link' : `every ${proxy.rotationMinutes} minutes`)}
${detailRow('Rotation link', isRunning && !isViewing(visit.visitor) && proxy.rotateUrl !== null ? html`<code>${proxy.rotateUrl}</code> <small>needs no key: treat it as a password</small>` : null)}
${detailRow('Host', `${proxy.host}`)}
${detailRow('Ports', `HTTP ${proxy.ports.http}, ${proxy.ports.https === null ? '' : `HTTPS ${proxy.ports.https}, `}SOCKS5 ${proxy.ports.socks5}`)}
${detailRow('Order', html`<a href="/console/orders/${proxy.orderId}">${idText(proxy.orderId)}</a>`)}
${detailRow('For', visit.account.reseller ? (proxy.customer ?? proxy.customerId ?? 'yourself') : null)}
${detailRow('Since', timeText(proxy.createdAt))}
${detailRow('Ends', timeText(proxy.expiresAt))}
</dl>
${labelForm(visit, proxy, typed, problems)}
${await history(proxy)}`,
      same: [
        `curl $API/proxies/${proxy.proxyId} -H "X-API-Key: $KEY"`,
        `curl $API/proxies/${proxy.proxyId}/check -H "X-API-Key: $KEY"`,
        `curl -X PATCH $API/proxies/${proxy.proxyId} -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '{"label":"acme"}'`,
      ],
    }
  }

  const label = async (visit: AccountVisit, typed: FormInput) => {
    const row = await ownRow(visit)
    const text = typed.text('label')
    if (text.length > maxLabelLength || /\p{Cc}/u.test(text)) {
      const problems = { label: `A label has at most ${maxLabelLength} characters, on one line.` }
      return refusedView(await oneView(visit, { typed, problems }))
    }
    await setLabel(pool, visit.account.accountId, row.proxyId as ProxyId, text)
    return goTo(`${root}/${row.proxyId}`, text === '' ? 'The label is gone.' : 'The label is set.')
  }

  const check = async (visit: AccountVisit) => {
    const { accountId } = visit.account
    const waitS = proxyChecks.take(accountId)
    if (waitS > 0)
      throw refuseWithRetryAfter('rate_limited', 'at most five checks a minute; wait a little', waitS)
    const checked = await proxyChecks.check(wholeAccount(accountId), visit.params.id ?? '', null)
    return show(await oneView(visit, { checked }))
  }

  const rotate = async (visit: AccountVisit) => {
    const row = await ownRow(visit)
    const nowMs = clock()
    const isEnded = (await ownRecord(visit)).status === 'expired'
    await rotateNow(pool, row.proxyId, { rotation_minutes: row.rotationMinutes, over: isEnded }, nowMs)
    return goTo(`${root}/${row.proxyId}`, 'New connections go out through another exit.')
  }

  const actOnOne = async (visit: AccountVisit, typed: FormInput) => {
    // First, so that every action on another account's rental answers not_found.
    await ownRow(visit)
    try {
      switch (typed.text('do')) {
        case 'label':
          return await label(visit, typed)
        case 'check':
          return await check(visit)
        case 'rotate':
          return await rotate(visit)
        default:
          throw refuse('invalid_body', 'the form must say label, check or rotate')
      }
    } catch (error) {
      const { text, status } = refusalOf(error)
      return refusedView(await oneView(visit, { problems: { form: text } }), status)
    }
  }

  return [
    accountPage({
      path: '/console/addresses/{id}',
      name: 'showAddress',
      summary: 'One dedicated address with its credentials',
      show: async (visit) => show(await oneView(visit)),
      act: { once: true, run: actOnOne },
    }),
  ]
}

/** Replaces the address of a rental. */
export const replaceAddressPages = ({
  findOwnProxy,
  proxyRecords,
  replaceAddress,
}: RecordReads & { readonly replaceAddress: ReplaceAddress }): readonly ConsolePage[] => {
  const replaceView = async (visit: AccountVisit, typed: FormInput, problems: Problems) => {
    const { proxyId, ip } = await ownRecordOf({ findOwnProxy, proxyRecords }, visit)
    return {
      title: `Replace ${ip}`,
      body: html`${problemsOf(problems)}
<p>The rental gets another free address of the same product and country. Its id, credentials and end stay; ${ip} stops at once. A rental is replaced once in 24 hours and three times in 30 days.</p>
<form method="post" action="${root}/${proxyId}/replace" class="stack" novalidate>
${keyField(visit.formKey)}
${choicesOf(
  {
    name: 'reason',
    legend: 'Why',
    one: true,
    chosen: ['not_working'],
    choices: replaceReasons.map((value) => ({ value, label: reasonWords[value] })),
  },
  typed,
  problems,
)}
${textAreaOf({ name: 'comment', label: 'Comment', hint: `What is wrong with it, at most ${maxComment} characters.` }, typed, problems)}
<div class="acts"><button class="danger">Replace ${ip}</button> <a href="${root}/${proxyId}">Keep it</a></div>
</form>`,
      same: [
        `curl -X POST $API/proxies/${proxyId}/replace -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '{"reason":"not_working"}'`,
      ],
    }
  }

  const replace = async (visit: AccountVisit, typed: FormInput) => {
    const reason = wordIn(replaceReasons, typed.text('reason'))
    const comment = typed.text('comment')
    const problems: Problems = {
      ...(reason === undefined && { reason: 'Choose why.' }),
      ...((comment.length > maxComment || !isStorable(comment)) && {
        comment: `A comment has at most ${maxComment} characters.`,
      }),
      ...(reason === 'custom' && comment === '' && { comment: 'Say what is wrong with the address.' }),
    }
    if (reason === undefined || Object.keys(problems).length > 0)
      return refusedView(await replaceView(visit, typed, problems))
    try {
      const { rental } = await replaceAddress(
        {
          scope: wholeAccount(visit.account.accountId),
          proxyId: visit.params.id ?? '',
          reason,
          comment: comment === '' ? undefined : comment,
          idempotencyKey: typed.key,
        },
        visit.cause,
        null,
      )
      return goTo(`${root}/${rental.proxyId}`, `The rental goes on with ${rental.ip}.`)
    } catch (error) {
      const { text, status } = refusalOf(error)
      return refusedView(await replaceView(visit, typed, { form: text }), status)
    }
  }

  return [
    accountPage({
      path: '/console/addresses/{id}/replace',
      name: 'replaceAddress',
      summary: 'Gives a rental another address',
      show: async (visit) => show(await replaceView(visit, emptyFormInput, {})),
      act: { once: 'by key', run: replace },
    }),
  ]
}

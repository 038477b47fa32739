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
import { fieldOf, keyField, postButton } from '../../platform/ui/form.ts'
import { formPage, pageForm, radioField, textAreaField } from '../../platform/ui/form-page.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { labelled, listPage } from '../../platform/ui/list.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  goTo,
  refused,
  refusedBy,
} from '../../platform/ui/page.ts'
import { isViewing } from '../../platform/ui/page-access.ts'
import {
  detailsOf,
  idColumn,
  nameColumn,
  stateColumn,
  tableOf,
  textColumn,
  timeColumn,
} from '../../platform/ui/table.ts'
import { afterText, type BadgeTone, buttonLink, idText, stateText, timeText } from '../../platform/ui/text.ts'
import { maxLabelLength, setLabel } from '../../platform/vault/labels.ts'
import { customerColumn, customerLink } from '../accounts/index.ts'
import { productName } from '../catalog/index.ts'
import { rotateNow } from './action-routes.ts'
import type { CheckResult, ProxyChecks } from './check-proxy.ts'
import type { FindProxy, ProxyRecords } from './own-rentals.ts'
import { type ProxyRecord, proxyLine } from './proxy-record.ts'
import { maxComment, type ReplaceAddress, readReplacements } from './replace-address.ts'

export const root = '/console/addresses'

const families = ['isp', 'mobile', 'ipv4', 'ipv6'] as const

const proxyBadges: Readonly<Record<ProxyStatus, BadgeTone>> = {
  active: 'good',
  expiring: 'warn',
  expired: 'off',
}
const addressState = (status: ProxyStatus): Html => stateText(status, proxyBadges[status])

const reasonTexts: Readonly<Record<ReplaceReason, string>> = {
  not_working: 'It does not work',
  wrong_location: 'Its location is wrong',
  change_network: 'I want another network',
  low_speed: 'It is slow',
  custom: 'Other: see the comment',
}

const locationText = ({ country, city }: Pick<ProxyRecord, 'country' | 'city'>): string =>
  city === null ? country : `${city}, ${country}`

type Checked = CheckResult & { readonly checkedAt: string }

const checkedView = ({ success, exitIp, elapsedMs, message, checkedAt }: Checked): Html =>
  html`<div class="message${success ? nothing : html` bad`}" role="status"><p>${message}</p><p class="soft">${exitIp === null ? 'No address was seen' : `The target saw ${exitIp}`} after ${elapsedMs} ms, ${timeText(checkedAt)}.</p></div>`

/** The rental of the path. @throws not_found */
export const ownRowOf = (findOwnProxy: FindProxy, { account, params }: AccountVisit): Promise<FoundProxy> =>
  findOwnProxy(wholeAccount(account.accountId), params.id ?? '', null)

/** The dedicated addresses of an account: their credentials, labels, checks, rotations and replacements. */
export const addressPages = ({
  db,
  reads,
  catalog,
  pool,
  clock,
  findOwnProxy,
  proxyRecords,
  proxyChecks,
  replaceAddress,
}: {
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
  readonly catalog: { current(): Pick<Catalog, 'resolve'> }
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly findOwnProxy: FindProxy
  readonly proxyRecords: ProxyRecords
  readonly proxyChecks: ProxyChecks
  readonly replaceAddress: ReplaceAddress
}): readonly ConsolePage[] => {
  const ownRow = (visit: AccountVisit) => ownRowOf(findOwnProxy, visit)

  /** The record of the rental of the path, in the renter's view. @throws not_found */
  const ownRecord = async (visit: AccountVisit): Promise<ProxyRecord> =>
    (await proxyRecords(visit.account.accountId, [await ownRow(visit)]))[0]!

  const historyOf = async ({ proxyId }: ProxyRecord): Promise<Html> => {
    const replacements = (await readReplacements(db, [proxyId])).get(proxyId) ?? []
    if (replacements.length === 0) return nothing
    return html`<h2>Replacements</h2>
${tableOf({
  caption: 'Replacements, oldest first',
  rows: replacements,
  columns: [
    { title: 'Time', head: true, cell: ({ replacedAt }) => timeText(replacedAt) },
    { title: 'From', cell: ({ formerIp }) => formerIp },
    { title: 'To', cell: ({ ip }) => ip },
    { title: 'Reason', cell: ({ reason }) => reason.replaceAll('_', ' ') },
    { title: 'Comment', cell: ({ comment }) => comment },
  ],
})}`
  }

  const addressView = async (visit: AccountVisit, checked: Checked | null = null): Promise<View> => {
    const { form, account } = visit
    const proxy = await ownRecord(visit)
    const path = `${root}/${proxy.proxyId}`
    const isRunning = proxy.status !== 'expired'
    const showsSecrets = isRunning && !isViewing(visit.visitor)
    const actionButton = (value: string, label: string): Html =>
      postButton(form, { name: 'do', value, label, action: path })
    const labelField = {
      name: 'label',
      label: 'Label',
      hint: `Your name for it, at most ${maxLabelLength} characters. Empty: none.`,
      maxlength: maxLabelLength,
      value: proxy.label,
    }
    const { asn, asnOrg, ports, rotateUrl, rotation, orderId } = proxy
    return {
      title: proxy.ip,
      actions: isRunning
        ? html`${actionButton('check', 'Check')}${rotation === 'by_link' ? actionButton('rotate', 'Rotate') : null} ${buttonLink(`${path}/extend`, 'Extend', 'first')}${buttonLink(`/console/orders/${orderId}/extend`, 'Extend whole order')}${buttonLink(`${path}/replace`, 'Replace')}`
        : html`<a href="${root}">All addresses</a>`,
      body: html`${checked && checkedView(checked)}
${showsSecrets ? html`<h2>Credentials</h2><code class="secret">${proxyLine(proxy)}</code><p class="soft">Host, port, username and password, for HTTP and SOCKS5.</p>` : null}
${detailsOf([
  ['State', addressState(proxy.status)],
  ['Rental', idText(proxy.proxyId)],
  ['Product', productName(catalog, proxy.productId)],
  ['Location', locationText(proxy)],
  ['Network', asn && `AS${asn}${asnOrg === null ? '' : ` ${asnOrg}`}`],
  ['Carrier', proxy.carrier],
  ['Rotation', rotation && (rotation === 'by_link' ? 'by link' : `every ${proxy.rotationMinutes} minutes`)],
  [
    'Rotation link',
    showsSecrets && rotateUrl !== null
      ? html`<code>${rotateUrl}</code> <small>works without a key: keep it secret</small>`
      : null,
  ],
  ['Host', proxy.host],
  [
    'Ports',
    `HTTP ${ports.http}, ${ports.https === null ? '' : `HTTPS ${ports.https}, `}SOCKS5 ${ports.socks5}`,
  ],
  ['Order', idText(orderId, `/console/orders/${orderId}`)],
  [
    'Customer',
    account.reseller
      ? proxy.customerId === null
        ? 'yourself'
        : customerLink(proxy.customerId, proxy.customer)
      : null,
  ],
  ['Since', timeText(proxy.createdAt)],
  ['Expires', timeText(proxy.expiresAt)],
])}
<form method="post" action="${path}" class="stack" novalidate>
${keyField(form.key)}
${fieldOf(labelField, form)}
<div class="actions"><button name="do" value="label">Set label</button></div>
</form>
${await historyOf(proxy)}`,
      cliEquivalents: [
        `curl $API/proxies/${proxy.proxyId} -H "X-API-Key: $KEY"`,
        `curl $API/proxies/${proxy.proxyId}/check -H "X-API-Key: $KEY"`,
        `curl -X PATCH $API/proxies/${proxy.proxyId} -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '{"label":"acme"}'`,
      ],
    }
  }

  const setAddressLabel = async (visit: AccountVisit, label: string) => {
    const { proxyId } = await ownRow(visit)
    if (label.length > maxLabelLength || /\p{Cc}/u.test(label))
      return refused({ label: `A label has at most ${maxLabelLength} characters, on one line.` })
    await setLabel(pool, visit.account.accountId, proxyId as ProxyId, label)
    return goTo(`${root}/${proxyId}`, label === '' ? 'The label is removed.' : 'The label is set.')
  }

  const check = async (visit: AccountVisit) => {
    const { accountId } = visit.account
    const { waitS } = await proxyChecks.limit.take(accountId)
    if (waitS > 0)
      throw refuseWithRetryAfter('rate_limited', 'at most five checks per minute; wait a moment', waitS)
    return addressView(visit, await proxyChecks.check(wholeAccount(accountId), visit.params.id ?? '', null))
  }

  const rotate = async (visit: AccountVisit) => {
    const { proxyId, rotationMinutes } = await ownRow(visit)
    const nowMs = clock()
    const over = (await ownRecord(visit)).status === 'expired'
    await rotateNow(pool, proxyId, { rotationMinutes, over }, nowMs)
    return goTo(`${root}/${proxyId}`, 'New connections use another exit.')
  }

  return [
    listPage(accountPage, {
      path: '/console/addresses',
      name: 'showAddresses',
      summary: 'The dedicated addresses of the account',
      title: 'Addresses',
      actions: buttonLink('/console/catalogue', 'Buy addresses', 'first'),
      filters: {
        status: {
          label: 'State',
          choices: { running: 'running', ...labelled(proxyStatuses) },
          standard: 'running',
        },
        family: { label: 'Family', choices: labelled(families, { isp: 'ISP', ipv4: 'IPv4', ipv6: 'IPv6' }) },
        country: { label: 'Country', hint: 'such as USA' },
      },
      caption: 'Dedicated addresses',
      orderedBy: 'Since',
      file: 'addresses',
      load: async ({ account, nowMs }, { status, family, country, ...page }) => {
        await reads.settled(account.accountId)

        const code = country?.toUpperCase() ?? ''
        const filter = { status, family, country: isCountry(code) ? code : undefined }
        const rows = await proxiesAfter(db, wholeAccount(account.accountId), filter, page, nowMs)
        return proxyRecords(account.accountId, rows)
      },
      keyOf: ({ createdAt, proxyId }) => afterText(createdAt, proxyId),
      columns: ({ account }) => [
        nameColumn('Address', ({ proxyId, ip, label }: ProxyRecord) => ({
          text: ip,
          href: `${root}/${proxyId}`,
          note: label,
        })),
        textColumn('Product', ({ productId }) => productName(catalog, productId), { place: 'plain' }),
        textColumn('Location', locationText, { place: 'plain' }),
        stateColumn('State', ({ status }) => [status, proxyBadges[status]]),
        ...(account.reseller ? [customerColumn(({ customerId }: ProxyRecord) => customerId)] : []),
        timeColumn('Since', ({ createdAt }) => createdAt, { place: 'minor' }),
        timeColumn('Expires', ({ expiresAt }) => expiresAt),
        idColumn('Rental', ({ proxyId }) => proxyId),
      ],
      empty: html`<p>You rent no addresses now.</p><p>${buttonLink('/console/catalogue', 'Buy addresses', 'first')} <a href="${root}?status=">Show expired ones</a></p>`,
      cliEquivalents: () => [
        'curl $API/proxies -H "X-API-Key: $KEY"',
        'curl "$API/proxies?format=txt" -H "X-API-Key: $KEY"   # one host:port:username:password per line',
      ],
    }),
    accountPage({
      path: '/console/addresses/{id}',
      name: 'showAddress',
      summary: 'One dedicated address with its credentials',
      show: (visit) => addressView(visit),
      act: {
        once: true,
        run: async (visit, typed) => {
          // First, so that every action on another account's rental answers not_found.
          await ownRow(visit)
          try {
            switch (typed.text('do')) {
              case 'label':
                return await setAddressLabel(visit, typed.text('label'))
              case 'check':
                return await check(visit)
              case 'rotate':
                return await rotate(visit)
              default:
                throw refuse('invalid_body', 'the form must say label, check or rotate')
            }
          } catch (error) {
            return refusedBy(error)
          }
        },
      },
    }),
    formPage(accountPage, {
      path: '/console/addresses/{id}/replace',
      name: 'replaceAddress',
      summary: 'Replaces the address of a rental',
      act: { once: 'by key' },
      form: async (visit) => {
        const { proxyId, ip } = await ownRecord(visit)
        return pageForm({
          title: `Replace ${ip}`,
          intro: html`<p>The rental gets another free address of the same product and country. Its id, credentials and end do not change. ${ip} stops at once. A rental can be replaced once in 24 hours and three times in 30 days.</p>`,
          fields: {
            reason: radioField({
              label: 'Reason',
              value: 'not_working',
              choices: replaceReasons.map((value) => ({ value, label: reasonTexts[value] })),
              problem: 'Choose a reason.',
            }),
            comment: textAreaField({
              label: 'Comment',
              hint: `Describe the problem in at most ${maxComment} characters.`,
              parse: (text) =>
                text.length > maxComment || !isStorable(text)
                  ? { problem: `A comment has at most ${maxComment} characters.` }
                  : text,
            }),
          },
          submit: `Replace ${ip}`,
          danger: true,
          back: `${root}/${proxyId}`,
          backLabel: 'Keep it',
          cliEquivalents: [
            `curl -X POST $API/proxies/${proxyId}/replace -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '{"reason":"not_working"}'`,
          ],
          run: async ({ reason, comment }, idempotencyKey) => {
            if (reason === 'custom' && comment === '') return refused({ comment: 'Describe the problem.' })
            const scope = wholeAccount(visit.account.accountId)
            const { rental } = await replaceAddress(
              { scope, proxyId, reason, comment: comment || undefined, idempotencyKey },
              visit.cause,
              null,
            )
            return goTo(`${root}/${proxyId}`, `The new address of the rental is ${rental.ip}.`)
          },
        })
      },
    }),
  ]
}

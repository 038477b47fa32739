import type pg from 'pg'
import { z } from 'zod'
import { capOf, isKeyActive, type KeyState } from '../../domain/accounts/fold.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { KeyId } from '../../kernel/ids.ts'
import { type CapCovers, type KeyCap, scopes as keyScopes } from '../../kernel/scopes.ts'
import { refuse } from '../../platform/http/errors.ts'
import { checkboxField, formPage, pageForm, radioField, textField } from '../../platform/ui/form-page.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { listPage } from '../../platform/ui/list.ts'
import { type AccountVisit, accountPage, type ConsolePage, goTo, refused } from '../../platform/ui/page.ts'
import {
  amountColumn,
  type Column,
  detailsOf,
  idColumn,
  nameColumn,
  stateColumn,
  textColumn,
  timeColumn,
} from '../../platform/ui/table.ts'
import {
  amountText,
  type BadgeTone,
  buttonLink,
  dollarText,
  idText,
  parseCents,
  stateText,
  timeText,
} from '../../platform/ui/text.ts'
import type { Accounts, AccountsRefusal } from './account-service.ts'
import { parseNetworks } from './api-key.ts'
import { lastUses } from './key-uses.ts'

const dayMs = 86_400_000
const hourMs = 3_600_000
const maxCapCents = 1_000_000_000
const maxDays = 3_650
const maxName = 64
const scopesField = z.array(z.enum(keyScopes)).min(1)

/** Parses dollars into whole cents; undefined if invalid, null (no cap) for an empty text. */
export const parseCap = (text: string): number | null | undefined =>
  text === '' ? null : parseCents(text, maxCapCents)

const capField = (value = '') =>
  textField({
    label: 'Daily cap, USD',
    hint: 'The most that this key may spend in any 24 hours. Empty: no cap.',
    inputmode: 'decimal',
    maxlength: 16,
    value,
    parse: (text) => {
      const cents = parseCap(text)
      return cents === undefined
        ? { problem: `Type dollars such as 50 or 50.25, at most ${maxCapCents / 100}.` }
        : cents
    },
  })

const coversField = (value: CapCovers = 'everything') =>
  radioField({
    label: 'The cap covers',
    choices: [
      {
        value: 'everything',
        label: 'everything (recommended)',
        hint: 'orders and scraper calls; the key cannot change automatic top-up or save a card',
      },
      { value: 'orders', label: 'orders only', hint: 'scraper calls are not limited' },
    ],
    value,
    problem: 'Choose what the cap covers.',
  })

const capText = (cap: KeyCap): string =>
  `${dollarText(cap.cents)} in 24 hours for ${cap.covers === 'orders' ? 'orders, not for scraper calls' : 'orders and scraper calls'}`

/** The value is in milliseconds; null: until the key is revoked. */
const daysField = textField({
  label: 'Valid for, days',
  hint: 'Empty: until it is revoked.',
  inputmode: 'numeric',
  maxlength: 4,
  parse: (text) => {
    if (text === '') return null
    const days = /^\d{1,4}$/.test(text) ? Number(text) : 0
    return days >= 1 && days <= maxDays ? days * dayMs : { problem: `Type whole days, 1 to ${maxDays}.` }
  },
})

type Key = KeyState & { readonly keyId: KeyId }
type UsedKey = Key & { readonly lastUsedAt: string | null }

const overlaps = [
  { value: '0', label: 'at once' },
  { value: '1', label: 'after an hour' },
  { value: '24', label: 'after a day' },
  { value: '168', label: 'after a week' },
] as const

const problemText = (refusal: AccountsRefusal): string => {
  switch (refusal.code) {
    case 'too_many_keys':
      return `The account has ${refusal.limit} active keys, the maximum. Revoke one first.`
    case 'key_revoked':
      return 'The key is revoked. This cannot be undone.'
    case 'key_expired':
      return 'The key has expired. Create another one.'
    case 'expiry_passed':
      return 'The expiry is in the past.'
    case 'cap_covers_nothing':
      return 'The cap would limit nothing, because the key cannot make what it covers: a key that only scrapes needs a cap for "everything", and a key that only reads needs none.'
    default:
      return 'The key cannot be changed now.'
  }
}

const badgeOf = (key: Key, nowMs: number): readonly [string, BadgeTone] => {
  if (key.revoked) return ['revoked', 'off']
  return isKeyActive(key, nowMs) ? ['active', 'good'] : ['expired', 'off']
}

const nameOf = ({ name, displayPrefix }: Key): string => name ?? `${displayPrefix}…`
const expiryOf = ({ expiresAtMs }: Key): Html => timeText(expiresAtMs === null ? null : isoTime(expiresAtMs))

const root = '/console/keys'
const pathOf = ({ keyId }: Key): string => `${root}/${keyId}`

/** Shows a new key. It is never shown again. */
const secretView = (title: string, key: string, details: string): View => ({
  title,
  body: html`<p>Copy the key now. It is shown only once and not stored.</p>
<code class="secret">${key}</code>
<p>${details}</p>
<p class="actions">${buttonLink(root, 'I have copied it')}</p>`,
  cliEquivalents: [
    'bin/farebox keys create --account ACCOUNT --scopes buy',
    `curl $API/me -H "X-API-Key: ${key.slice(0, 8)}…"`,
  ],
})

/** The API keys of an account. */
export const keyPages = ({
  accounts,
  pool,
}: {
  readonly accounts: Pick<Accounts, 'read' | 'issueKey' | 'capKey' | 'rollKey' | 'revokeKey'>
  readonly pool: pg.Pool
}): readonly ConsolePage[] => {
  const keysOf = async ({ account, cause }: AccountVisit): Promise<readonly Key[]> => {
    const state = await accounts.read(account.accountId, cause)
    return [...(state?.keys ?? [])].map(([keyId, key]) => ({ keyId, ...key })).reverse()
  }

  /** The key of the path, if the account owns it. */
  const ownKey = async (visit: AccountVisit): Promise<Key> => {
    const key = (await keysOf(visit)).find(({ keyId }) => keyId === visit.params.id)
    if (!key) throw refuse('not_found', 'no key has this id')
    return key
  }

  return [
    listPage(accountPage, {
      path: '/console/keys',
      name: 'showKeys',
      summary: 'The API keys of the account',
      title: 'API keys',
      actions: buttonLink(`${root}/new`, 'Create API key', 'first'),
      filters: {
        state: { label: 'State', choices: { active: 'active', expired: 'expired', revoked: 'revoked' } },
      },
      caption: 'API keys, newest first',
      search: 'Name, prefix or id',
      file: 'api-keys',
      rows: async (visit, { state }) => {
        const keys = await keysOf(visit)
        const lastUsedAt = await lastUses(
          pool,
          keys.map(({ keyId }) => keyId),
        )
        return keys
          .map((key) => ({ ...key, lastUsedAt: lastUsedAt.get(key.keyId) ?? null }))
          .filter((key) => state === undefined || badgeOf(key, visit.nowMs)[0] === state)
      },
      columns: (visit): readonly Column<UsedKey>[] => [
        nameColumn('Key', (key) => ({ text: nameOf(key), href: pathOf(key) })),
        stateColumn('State', (key) => badgeOf(key, visit.nowMs)),
        textColumn('Prefix', ({ displayPrefix }) => `${displayPrefix}…`, { place: 'minor' }),
        textColumn('Scopes', ({ scopes }) => scopes.join(', '), { place: 'plain' }),
        amountColumn('Daily cap', ({ dailyCapCents }) => dailyCapCents),
        textColumn('Networks', ({ networks }) => networks?.join(', ') ?? 'any', { place: 'minor' }),
        timeColumn('Last used', ({ lastUsedAt }) => lastUsedAt),
        timeColumn('Expires', ({ expiresAtMs }) => (expiresAtMs === null ? null : isoTime(expiresAtMs))),
        idColumn('Key id', ({ keyId }) => keyId, { place: 'file' }),
      ],
      empty: html`<p>Programs use an API key to order, to read your account and to scrape.</p><p>${buttonLink(`${root}/new`, 'Create API key', 'first')}</p>`,
      cliEquivalents: ({ account }) => [`bin/farebox keys list --account ${account.accountId}`],
    }),
    formPage(accountPage, {
      path: '/console/keys/new',
      name: 'makeKey',
      summary: 'Creates an API key, which is shown once',
      confirmed: true,
      act: { once: true },
      form: ({ account: { accountId }, nowMs, cause }) =>
        pageForm({
          title: 'Create API key',
          fields: {
            name: textField({
              label: 'Name',
              hint: 'Such as "web shop". It stays in the log: do not include personal data.',
              maxlength: maxName,
              parse: (text) =>
                text.length > maxName || /\p{C}/u.test(text)
                  ? { problem: `A name has at most ${maxName} characters, on one line.` }
                  : text || null,
            }),
            scopes: checkboxField({
              label: 'Scopes',
              ticked: ['buy'],
              choices: [
                { value: 'buy', label: 'buy', hint: 'place orders and read them' },
                { value: 'scrape', label: 'scrape', hint: 'run scrapers' },
                {
                  value: 'read',
                  label: 'read',
                  hint: 'read everything, also passwords of proxies; change nothing',
                },
              ],
              parse: (texts) => scopesField.safeParse(texts).data ?? { problem: 'Tick what the key may do.' },
            }),
            cap: capField(),
            covers: coversField(),
            days: daysField,
            networks: textField({
              label: 'Allowed networks',
              hint: 'Addresses and networks, separated by commas, such as 203.0.113.0/24. Empty: any.',
              maxlength: 2_000,
              parse: (text) =>
                text === '' ? { networks: null } : parseNetworks(text.replaceAll(/\s+/g, ',')),
            }),
          },
          submit: 'Create API key',
          back: root,
          cliEquivalents: [
            `bin/farebox keys create --account ${accountId} --scopes buy --daily-cap-cents 5000 --cap-covers everything`,
          ],
          run: async ({ name, scopes, cap: cents, covers, days, networks: { networks } }) => {
            const cap = cents === null ? null : { cents, covers }
            const issued = await accounts.issueKey(
              {
                accountId,
                name,
                scopes,
                cap,
                networks,
                expiresAtMs: days === null ? null : nowMs + days,
              },
              cause,
            )
            if (issued.outcome === 'refused') return refused({ form: problemText(issued.refusal) }, 409)
            const limit = cap === null ? '' : `; at most ${capText(cap)}`
            return secretView('Your new key', issued.key, `Scopes: ${scopes.join(', ')}${limit}.`)
          },
        }),
    }),
    accountPage({
      path: '/console/keys/{id}',
      name: 'showKey',
      summary: 'One API key',
      show: async (visit) => {
        const key = await ownKey(visit)
        const path = pathOf(key)
        const cap = capOf(key)
        return {
          title: nameOf(key),
          actions: isKeyActive(key, visit.nowMs)
            ? html`${buttonLink(`${path}/cap`, 'Set cap')}${buttonLink(`${path}/roll`, 'Replace key')}${buttonLink(`${path}/revoke`, 'Revoke key', 'danger')}`
            : html`<a href="${root}">All keys</a>`,
          body: detailsOf([
            ['Key', idText(key.keyId)],
            ['Prefix', html`<code>${key.displayPrefix}</code>`],
            ['State', stateText(...badgeOf(key, visit.nowMs))],
            ['Scopes', key.scopes.join(', ')],
            ['Networks', key.networks?.join(', ') ?? 'any'],
            ['Expires', expiryOf(key)],
            ['Daily cap', cap === null ? 'none' : capText(cap)],
          ]),
          cliEquivalents: ['bin/farebox keys list'],
        }
      },
    }),
    formPage(accountPage, {
      path: '/console/keys/{id}/cap',
      name: 'capKey',
      summary: 'Sets the daily cap of an API key',
      confirmed: true,
      form: async (visit) => {
        const key = await ownKey(visit)
        const former = capOf(key)
        return pageForm({
          title: `Cap of ${nameOf(key)}`,
          fields: {
            cap: capField(former === null ? '' : amountText(former.cents)),
            covers: coversField(former?.covers),
          },
          submit: 'Set cap',
          back: pathOf(key),
          cliEquivalents: [
            `bin/farebox keys cap ${key.keyId} --daily-cap-cents 5000 --cap-covers everything`,
          ],
          run: async ({ cap: cents, covers }) => {
            const cap = cents === null ? null : { cents, covers }
            const done = await accounts.capKey(key.keyId, cap, visit.cause)
            if (done.outcome === 'refused') return refused({ form: problemText(done.refusal) }, 409)
            return goTo(
              pathOf(key),
              cap === null ? 'The key has no cap.' : `The key may spend ${capText(cap)}.`,
            )
          },
        })
      },
    }),
    formPage(accountPage, {
      path: '/console/keys/{id}/roll',
      name: 'rollKey',
      summary: 'Replaces an API key',
      confirmed: true,
      act: { once: true },
      form: async (visit) => {
        const key = await ownKey(visit)
        return pageForm({
          title: `Replace ${nameOf(key)}`,
          intro: html`<p>You get a new key with the same scopes, cap and networks. Both keys share one daily cap until the old one ends.</p>`,
          fields: {
            overlap: radioField({
              label: 'The old key ends',
              choices: overlaps,
              value: '24',
              problem: 'Choose when the old key ends.',
            }),
            days: daysField,
          },
          submit: 'Replace key',
          back: pathOf(key),
          cliEquivalents: [`bin/farebox keys roll ${key.keyId} --overlap 24h`],
          run: async ({ overlap, days }) => {
            const rolled = await accounts.rollKey(
              {
                keyId: key.keyId,
                overlapMs: Number(overlap) * hourMs,
                ...(days !== null && { expiresAtMs: visit.nowMs + days }),
              },
              visit.cause,
            )
            if (rolled.outcome === 'refused') return refused({ form: problemText(rolled.refusal) }, 409)
            const { label } = overlaps.find(({ value }) => value === overlap)!
            return secretView('Your new key', rolled.key, `The old key ends ${label}.`)
          },
        })
      },
    }),
    formPage(accountPage, {
      path: '/console/keys/{id}/revoke',
      name: 'revokeKey',
      summary: 'Revokes an API key',
      confirmed: true,
      // Allowed for a blocked account, because it only removes access.
      act: { whenBlocked: true },
      form: async (visit) => {
        const key = await ownKey(visit)
        return pageForm({
          title: `Revoke ${nameOf(key)}`,
          intro: html`<p>Requests with the key <code>${key.displayPrefix}…</code> are refused within a second. This cannot be undone.</p>`,
          submit: 'Revoke key',
          danger: true,
          back: pathOf(key),
          backLabel: 'Keep it',
          cliEquivalents: [`bin/farebox keys revoke ${key.keyId}`],
          run: async () => {
            const done = await accounts.revokeKey(key.keyId, visit.cause)
            return goTo(
              root,
              done.outcome === 'done' ? `${nameOf(key)} is revoked.` : problemText(done.refusal),
            )
          },
        })
      },
    }),
  ]
}

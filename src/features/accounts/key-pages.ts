import type pg from 'pg'
import { isKeyActive, type KeyState } from '../../domain/accounts/fold.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { KeyId } from '../../kernel/ids.ts'
import type { KeyScope as Scope } from '../../kernel/scopes.ts'
import { refuse } from '../../platform/http/errors.ts'
import {
  choicesOf,
  type FormInput,
  type FormState,
  fieldOf,
  formOf,
  type Problems,
  problemsIn,
} from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { type AccountVisit, accountPage, type ConsolePage, goTo, refused } from '../../platform/ui/page.ts'
import { detailsOf, tableOf } from '../../platform/ui/table.ts'
import {
  amountText,
  buttonLink,
  dollarText,
  idText,
  parseCents,
  softText,
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

/** The fields of the key form. */
type KeyInput = {
  readonly name: string | null
  readonly scopes: readonly Scope[]
  readonly dailyCapCents: number | null
  readonly networks: readonly string[] | null
  readonly expiresAtMs: number | null
}

/** Parses dollars into whole cents; undefined if invalid, null (no cap) for an empty text. */
export const parseCap = (text: string): number | null | undefined =>
  text === '' ? null : parseCents(text, maxCapCents)

const daysOf = (text: string): number | null | undefined => {
  if (text === '') return null
  const days = /^\d{1,4}$/.test(text) ? Number(text) : 0
  return days >= 1 && days <= maxDays ? days : undefined
}

const capProblem = `Type dollars such as 50 or 50.25, at most ${maxCapCents / 100}.`
const daysProblem = `Type whole days, 1 to ${maxDays}.`

/** Parses the form. Problems are listed per field. */
const parseKeyForm = (typed: FormInput, nowMs: number): KeyInput | { readonly problems: Problems } => {
  const name = typed.text('name')
  const scopes = typed.all('scopes')
  const cap = parseCap(typed.text('cap'))
  const days = daysOf(typed.text('days'))
  const networksText = typed.text('networks')
  const networks =
    networksText === '' ? { networks: null } : parseNetworks(networksText.replaceAll(/\s+/g, ','))
  const knownScopes = scopes.filter((scope): scope is Scope => scope === 'buy' || scope === 'scrape')
  const problems = problemsIn({
    name:
      (name.length > maxName || /\p{C}/u.test(name)) &&
      `A name has at most ${maxName} characters, on one line.`,
    scopes: (knownScopes.length === 0 || knownScopes.length !== scopes.length) && 'Tick what the key may do.',
    cap: cap === undefined && capProblem,
    days: days === undefined && daysProblem,
    networks: 'problem' in networks && networks.problem,
  })
  if (problems || cap === undefined || days === undefined || 'problem' in networks)
    return { problems: problems ?? {} }
  return {
    name: name || null,
    scopes: [...new Set(knownScopes)],
    dailyCapCents: cap,
    networks: networks.networks,
    expiresAtMs: days === null ? null : nowMs + days * dayMs,
  }
}

const capField = (form: FormState, value = ''): Html =>
  fieldOf(
    {
      name: 'cap',
      label: 'Daily cap, USD',
      hint: 'The largest cost of orders with this key in any 24 hours. Empty: no cap.',
      inputmode: 'decimal',
      maxlength: 16,
      value,
    },
    form,
  )

const daysField = (form: FormState): Html =>
  fieldOf(
    {
      name: 'days',
      label: 'Valid for, days',
      hint: 'Empty: until it is revoked.',
      inputmode: 'numeric',
      maxlength: 4,
    },
    form,
  )

type Key = KeyState & { readonly keyId: KeyId }

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
    default:
      return 'The key cannot be changed now.'
  }
}

const stateOf = (key: Key, nowMs: number): Html => {
  if (key.revoked) return stateText('revoked', 'off')
  return isKeyActive(key, nowMs) ? stateText('active', 'good') : stateText('expired', 'off')
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
    'npx farebox keys create --account ACCOUNT --scopes buy',
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
    accountPage({
      path: '/console/keys',
      name: 'showKeys',
      summary: 'The API keys of the account',
      nav: { label: 'API keys' },
      show: async (visit) => {
        const rows = await keysOf(visit)
        const lastUsedAt = await lastUses(
          pool,
          rows.map(({ keyId }) => keyId),
        )
        return {
          title: 'API keys',
          actions: buttonLink(`${root}/new`, 'Create API key', 'first'),
          body: tableOf({
            caption: 'API keys, newest first',
            rows,
            empty: html`<p>There is no key yet. <a href="${root}/new">Create the first one</a></p>`,
            columns: [
              {
                title: 'Key',
                head: true,
                cell: (key) =>
                  html`<a href="${pathOf(key)}">${nameOf(key)}</a>${key.name === null ? null : html`<br><code>${key.displayPrefix}…</code>`}`,
              },
              { title: 'State', cell: (key) => stateOf(key, visit.nowMs) },
              { title: 'Scopes', cell: ({ scopes }) => scopes.join(', ') },
              {
                title: 'Daily cap, USD',
                number: true,
                cell: ({ dailyCapCents }) =>
                  dailyCapCents === null ? softText('none') : amountText(dailyCapCents),
              },
              { title: 'Networks', cell: ({ networks }) => networks?.join(', ') ?? 'any' },
              { title: 'Last used', cell: ({ keyId }) => timeText(lastUsedAt.get(keyId) ?? null) },
              { title: 'Expires', cell: expiryOf },
            ],
          }),
          cliEquivalents: [`npx farebox keys list --account ${visit.account.accountId}`],
        }
      },
    }),
    accountPage({
      path: '/console/keys/new',
      name: 'makeKey',
      summary: 'Creates an API key, which is shown once',
      confirmed: true,
      show: async ({ form, account }) => ({
        title: 'Create API key',
        body: formOf(form, {
          fields: [
            fieldOf(
              {
                name: 'name',
                label: 'Name',
                hint: 'Such as "web shop". It stays in the log: do not include personal data.',
                maxlength: maxName,
              },
              form,
            ),
            choicesOf(
              {
                name: 'scopes',
                legend: 'Scopes',
                chosen: ['buy'],
                choices: [
                  { value: 'buy', label: 'buy', hint: 'place orders and read them' },
                  { value: 'scrape', label: 'scrape', hint: 'run scrapers' },
                ],
              },
              form,
            ),
            capField(form),
            daysField(form),
            fieldOf(
              {
                name: 'networks',
                label: 'Allowed networks',
                hint: 'Addresses and networks, separated by commas, such as 203.0.113.0/24. Empty: any.',
                maxlength: 2_000,
              },
              form,
            ),
          ],
          submit: 'Create API key',
          back: root,
        }),
        cliEquivalents: [
          `npx farebox keys create --account ${account.accountId} --scopes buy --daily-cap-cents 5000`,
        ],
      }),
      act: {
        once: true,
        run: async ({ account: { accountId }, nowMs, cause }, typed) => {
          const input = parseKeyForm(typed, nowMs)
          if ('problems' in input) return refused(input.problems)
          const issued = await accounts.issueKey({ accountId, ...input }, cause)
          if (issued.outcome === 'refused') return refused({ form: problemText(issued.refusal) }, 409)
          const { scopes, dailyCapCents } = input
          const cap = dailyCapCents === null ? '' : `, daily cap ${dollarText(dailyCapCents)}`
          return secretView('Your new key', issued.key, `Scopes: ${scopes.join(', ')}${cap}.`)
        },
      },
    }),
    accountPage({
      path: '/console/keys/{id}',
      name: 'showKey',
      summary: 'One API key',
      show: async (visit) => {
        const key = await ownKey(visit)
        const path = pathOf(key)
        return {
          title: nameOf(key),
          actions: isKeyActive(key, visit.nowMs)
            ? html`${buttonLink(`${path}/cap`, 'Set cap')}${buttonLink(`${path}/roll`, 'Replace key')}${buttonLink(`${path}/revoke`, 'Revoke key', 'danger')}`
            : html`<a href="${root}">All keys</a>`,
          body: detailsOf([
            ['Key', idText(key.keyId)],
            ['Prefix', html`<code>${key.displayPrefix}</code>`],
            ['State', stateOf(key, visit.nowMs)],
            ['Scopes', key.scopes.join(', ')],
            ['Networks', key.networks?.join(', ') ?? 'any'],
            ['Expires', expiryOf(key)],
            ['Daily cap', key.dailyCapCents === null ? 'none' : dollarText(key.dailyCapCents)],
          ]),
          cliEquivalents: ['npx farebox keys list'],
        }
      },
    }),
    accountPage({
      path: '/console/keys/{id}/cap',
      name: 'capKey',
      summary: 'Sets the daily cap of an API key',
      confirmed: true,
      show: async (visit) => {
        const key = await ownKey(visit)
        const value = key.dailyCapCents === null ? '' : amountText(key.dailyCapCents)
        return {
          title: `Cap of ${nameOf(key)}`,
          body: formOf(visit.form, {
            fields: [capField(visit.form, value)],
            submit: 'Set cap',
            back: pathOf(key),
          }),
          cliEquivalents: [`npx farebox keys cap ${key.keyId} --daily-cap-cents 5000`],
        }
      },
      act: {
        run: async (visit, typed) => {
          const key = await ownKey(visit)
          const dailyCapCents = parseCap(typed.text('cap'))
          if (dailyCapCents === undefined) return refused({ cap: capProblem })
          const done = await accounts.capKey(key.keyId, dailyCapCents, visit.cause)
          if (done.outcome === 'refused') return refused({ form: problemText(done.refusal) }, 409)
          return goTo(
            pathOf(key),
            dailyCapCents === null
              ? 'The key has no cap.'
              : `The key is capped at ${dollarText(dailyCapCents)} in 24 hours.`,
          )
        },
      },
    }),
    accountPage({
      path: '/console/keys/{id}/roll',
      name: 'rollKey',
      summary: 'Replaces an API key',
      confirmed: true,
      show: async (visit) => {
        const { form } = visit
        const key = await ownKey(visit)
        return {
          title: `Replace ${nameOf(key)}`,
          body: html`<p>You get a new key with the same scopes, cap and networks. Both keys share one daily cap until the old one ends.</p>
${formOf(form, {
  fields: [
    choicesOf(
      { name: 'overlap', legend: 'The old key ends', choices: overlaps, chosen: ['24'], one: true },
      form,
    ),
    daysField(form),
  ],
  submit: 'Replace key',
  back: pathOf(key),
})}`,
          cliEquivalents: [`npx farebox keys roll ${key.keyId} --overlap 24h`],
        }
      },
      act: {
        once: true,
        run: async (visit, typed) => {
          const { keyId } = await ownKey(visit)
          const overlap = overlaps.find(({ value }) => value === typed.text('overlap'))
          const days = daysOf(typed.text('days'))
          const problems = problemsIn({
            overlap: !overlap && 'Choose when the old key ends.',
            days: days === undefined && daysProblem,
          })
          if (problems || !overlap || days === undefined) return refused(problems ?? {})
          const rolled = await accounts.rollKey(
            {
              keyId,
              overlapMs: Number(overlap.value) * hourMs,
              ...(days !== null && { expiresAtMs: visit.nowMs + days * dayMs }),
            },
            visit.cause,
          )
          if (rolled.outcome === 'refused') return refused({ form: problemText(rolled.refusal) }, 409)
          return secretView('Your new key', rolled.key, `The old key ends ${overlap.label}.`)
        },
      },
    }),
    accountPage({
      path: '/console/keys/{id}/revoke',
      name: 'revokeKey',
      summary: 'Revokes an API key',
      confirmed: true,
      show: async (visit) => {
        const key = await ownKey(visit)
        return {
          title: `Revoke ${nameOf(key)}`,
          body: html`<p>Requests with the key <code>${key.displayPrefix}…</code> are refused within a second. This cannot be undone.</p>
${formOf(visit.form, { submit: 'Revoke key', danger: true, back: pathOf(key), backLabel: 'Keep it' })}`,
          cliEquivalents: [`npx farebox keys revoke ${key.keyId}`],
        }
      },
      act: {
        // Allowed for a blocked account, because it only removes access.
        whenBlocked: true,
        run: async (visit) => {
          const key = await ownKey(visit)
          const done = await accounts.revokeKey(key.keyId, visit.cause)
          return goTo(
            root,
            done.outcome === 'done' ? `${nameOf(key)} is revoked.` : problemText(done.refusal),
          )
        },
      },
    }),
  ]
}

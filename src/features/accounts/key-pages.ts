import type pg from 'pg'
import { isKeyActive, type KeyState } from '../../domain/accounts/fold.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { KeyId } from '../../kernel/ids.ts'
import { refuse } from '../../platform/http/errors.ts'
import {
  choicesOf,
  emptyFormInput,
  type FormInput,
  keyField,
  type Problems,
  problemsOf,
} from '../../platform/ui/form.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  goTo,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { amountText, dollarText, idText, stateText, timeText } from '../../platform/ui/text.ts'
import type { Accounts, AccountsRefusal } from './account-service.ts'
import { capField, capProblem, daysField, keyFields, parseCap, parseKeyForm } from './key-form.ts'
import { lastUses } from './key-uses.ts'

type Key = KeyState & { readonly keyId: KeyId }

const hourMs = 3_600_000
const overlaps = [
  { value: '0', label: 'at once' },
  { value: '1', label: 'after an hour' },
  { value: '24', label: 'after a day' },
  { value: '168', label: 'after a week' },
] as const

const problemText = (refusal: AccountsRefusal): string => {
  switch (refusal.code) {
    case 'too_many_keys':
      return `There are ${refusal.limit} keys that work, as many as one account may have: revoke one first.`
    case 'key_revoked':
      return 'The key is revoked for good.'
    case 'key_expired':
      return 'The key has expired: make another one.'
    case 'expiry_passed':
      return 'The expiry is in the past.'
    default:
      return 'The key cannot be changed now.'
  }
}

const stateOf = (key: Key, nowMs: number): Html => {
  if (key.revoked) return stateText('revoked', 'off')
  return isKeyActive(key, nowMs) ? stateText('works', 'good') : stateText('expired', 'off')
}

const nameOf = ({ name, displayPrefix }: Key): string => name ?? `${displayPrefix}…`

/** Shows a new key. It is never shown again. */
const secretView = (title: string, key: string, details: Html) =>
  show({
    title,
    body: html`<p>Copy the key now. It is shown this once, and kept nowhere.</p>
<code class="secret">${key}</code>
${details}
<p class="acts"><a class="button" href="/console/keys">I have copied it</a></p>`,
    same: [
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

  const list = async (visit: AccountVisit) => {
    const keys = await keysOf(visit)
    const lastUsedAt = await lastUses(
      pool,
      keys.map(({ keyId }) => keyId),
    )
    return show({
      title: 'API keys',
      acts: html`<a class="button first" href="/console/keys/new">Make a key</a>`,
      body: tableOf({
        caption: 'API keys, newest first',
        rows: keys,
        empty: html`<p>There is no key yet. <a href="/console/keys/new">Make the first one</a></p>`,
        columns: [
          {
            title: 'Key',
            head: true,
            cell: (key) =>
              html`<a href="/console/keys/${key.keyId}">${nameOf(key)}</a>${key.name === null ? null : html`<br><code>${key.displayPrefix}…</code>`}`,
          },
          { title: 'State', cell: (key) => stateOf(key, visit.nowMs) },
          { title: 'May', cell: ({ scopes }) => scopes.join(', ') },
          {
            title: 'Daily cap, USD',
            number: true,
            cell: ({ dailyCapCents }) =>
              dailyCapCents === null ? html`<span class="soft">none</span>` : amountText(dailyCapCents),
          },
          { title: 'From', cell: ({ networks }) => networks?.join(', ') ?? 'anywhere' },
          { title: 'Last used', cell: ({ keyId }) => timeText(lastUsedAt.get(keyId) ?? null) },
          {
            title: 'Ends',
            cell: ({ expiresAtMs }) => timeText(expiresAtMs === null ? null : isoTime(expiresAtMs)),
          },
        ],
      }),
      same: [`npx farebox keys list --account ${visit.account.accountId}`],
    })
  }

  const newView = (visit: AccountVisit, typed: FormInput, problems: Problems) => ({
    title: 'Make a key',
    body: html`${problemsOf(problems)}
<form method="post" action="/console/keys/new" class="stack" novalidate>
${keyField(visit.formKey)}
${keyFields(typed, problems)}
<div class="acts"><button class="first">Make the key</button> <a href="/console/keys">Back</a></div>
</form>`,
    same: [
      `npx farebox keys create --account ${visit.account.accountId} --scopes buy --daily-cap-cents 5000`,
    ],
  })

  const make = async (visit: AccountVisit, typed: FormInput) => {
    const read = parseKeyForm(typed, visit.nowMs)
    if ('problems' in read) return refusedView(newView(visit, typed, read.problems))
    const { input: keyInput } = read
    const issued = await accounts.issueKey({ accountId: visit.account.accountId, ...keyInput }, visit.cause)
    if (issued.outcome === 'refused')
      return refusedView(newView(visit, typed, { form: problemText(issued.refusal) }), 409)
    return secretView(
      'Your new key',
      issued.key,
      html`<p>It may ${keyInput.scopes.join(' and ')}${keyInput.dailyCapCents === null ? '' : `, for at most ${dollarText(keyInput.dailyCapCents)} in 24 hours`}.</p>`,
    )
  }

  const oneView = (key: Key, nowMs: number) => {
    const path = `/console/keys/${key.keyId}`
    return {
      title: nameOf(key),
      acts: isKeyActive(key, nowMs)
        ? html`<a class="button" href="${path}/cap">Set its cap</a> <a class="button" href="${path}/roll">Replace it</a> <a class="button danger" href="${path}/revoke">Revoke it</a>`
        : html`<a href="/console/keys">All keys</a>`,
      body: html`<dl class="facts">
<dt>Key</dt><dd>${idText(key.keyId)}</dd>
<dt>Begins with</dt><dd><code>${key.displayPrefix}</code></dd>
<dt>State</dt><dd>${stateOf(key, nowMs)}</dd>
<dt>May</dt><dd>${key.scopes.join(', ')}</dd>
<dt>Works from</dt><dd>${key.networks?.join(', ') ?? 'anywhere'}</dd>
<dt>Ends</dt><dd>${timeText(key.expiresAtMs === null ? null : isoTime(key.expiresAtMs))}</dd>
<dt>Daily cap</dt><dd>${key.dailyCapCents === null ? 'none' : dollarText(key.dailyCapCents)}</dd>
</dl>`,
      same: ['npx farebox keys list'],
    }
  }

  const capView = (key: Key, typed: FormInput, problems: Problems) => ({
    title: `Cap of ${nameOf(key)}`,
    body: html`${problemsOf(problems)}
<form method="post" action="/console/keys/${key.keyId}/cap" class="stack" novalidate>
${capField(typed, problems, key.dailyCapCents === null ? '' : amountText(key.dailyCapCents))}
<div class="acts"><button class="first">Set the cap</button> <a href="/console/keys/${key.keyId}">Back</a></div>
</form>`,
    same: [`npx farebox keys cap ${key.keyId} --daily-cap-cents 5000`],
  })

  const setCap = async (visit: AccountVisit, typed: FormInput) => {
    const key = await ownKey(visit)
    const dailyCapCents = parseCap(typed.text('cap'))
    if (dailyCapCents === undefined) return refusedView(capView(key, typed, { cap: capProblem }))
    const done = await accounts.capKey(key.keyId, dailyCapCents, visit.cause)
    if (done.outcome === 'refused')
      return refusedView(capView(key, typed, { form: problemText(done.refusal) }), 409)
    return goTo(
      `/console/keys/${key.keyId}`,
      dailyCapCents === null
        ? 'The key has no cap.'
        : `The key is capped at ${dollarText(dailyCapCents)} in 24 hours.`,
    )
  }

  const rollView = (visit: AccountVisit, key: Key, typed: FormInput, problems: Problems) => ({
    title: `Replace ${nameOf(key)}`,
    body: html`${problemsOf(problems)}
<p>You get another key with the same rights, cap and networks. Both spend under one daily cap until the former one ends.</p>
<form method="post" action="/console/keys/${key.keyId}/roll" class="stack" novalidate>
${keyField(visit.formKey)}
${choicesOf({ name: 'overlap', legend: 'The former key ends', choices: overlaps, chosen: ['24'], one: true }, typed, problems)}
${daysField(typed, problems)}
<div class="acts"><button class="first">Replace the key</button> <a href="/console/keys/${key.keyId}">Back</a></div>
</form>`,
    same: [`npx farebox keys roll ${key.keyId} --overlap 24h`],
  })

  const roll = async (visit: AccountVisit, typed: FormInput) => {
    const key = await ownKey(visit)
    const overlap = overlaps.find(({ value }) => value === typed.text('overlap'))
    const days = typed.text('days')
    const areDaysValid = days === '' || (/^\d{1,4}$/.test(days) && Number(days) >= 1 && Number(days) <= 3_650)
    if (!overlap || !areDaysValid)
      return refusedView(
        rollView(visit, key, typed, {
          ...(!overlap && { overlap: 'Choose when the former key ends.' }),
          ...(!areDaysValid && { days: 'Type whole days, 1 to 3650.' }),
        }),
      )
    const rolled = await accounts.rollKey(
      {
        keyId: key.keyId,
        overlapMs: Number(overlap.value) * hourMs,
        ...(days !== '' && { expiresAtMs: visit.nowMs + Number(days) * 24 * hourMs }),
      },
      visit.cause,
    )
    if (rolled.outcome === 'refused')
      return refusedView(rollView(visit, key, typed, { form: problemText(rolled.refusal) }), 409)
    return secretView(
      'The key that replaces it',
      rolled.key,
      html`<p>The former key ends ${overlap.label}.</p>`,
    )
  }

  return [
    accountPage({
      path: '/console/keys',
      name: 'showKeys',
      summary: 'The API keys of the account',
      nav: { label: 'API keys' },
      show: list,
    }),
    accountPage({
      path: '/console/keys/new',
      name: 'makeKey',
      summary: 'Makes an API key, which is shown once',
      confirmed: true,
      show: async (visit) => show(newView(visit, emptyFormInput, {})),
      act: { once: true, run: make },
    }),
    accountPage({
      path: '/console/keys/{id}',
      name: 'showKey',
      summary: 'One API key',
      show: async (visit) => show(oneView(await ownKey(visit), visit.nowMs)),
    }),
    accountPage({
      path: '/console/keys/{id}/cap',
      name: 'capKey',
      summary: 'Sets what orders with an API key may cost in a day',
      confirmed: true,
      show: async (visit) => show(capView(await ownKey(visit), emptyFormInput, {})),
      act: { run: setCap },
    }),
    accountPage({
      path: '/console/keys/{id}/roll',
      name: 'rollKey',
      summary: 'Replaces an API key by another one',
      confirmed: true,
      show: async (visit) => show(rollView(visit, await ownKey(visit), emptyFormInput, {})),
      act: { once: true, run: roll },
    }),
    accountPage({
      path: '/console/keys/{id}/revoke',
      name: 'revokeKey',
      summary: 'Ends an API key for good',
      confirmed: true,
      show: async (visit) => {
        const key = await ownKey(visit)
        return show({
          title: `Revoke ${nameOf(key)}`,
          body: html`<p>Requests with this key are refused within a second, and the key never works again. It begins with <code>${key.displayPrefix}</code>.</p>
<form method="post" action="/console/keys/${key.keyId}/revoke"><div class="acts"><button class="danger">Revoke the key</button> <a href="/console/keys/${key.keyId}">Keep it</a></div></form>`,
          same: [`npx farebox keys revoke ${key.keyId}`],
        })
      },
      act: {
        // Allowed for a blocked account, because it only removes access.
        whenBlocked: true,
        run: async (visit) => {
          const key = await ownKey(visit)
          const done = await accounts.revokeKey(key.keyId, visit.cause)
          return goTo(
            '/console/keys',
            done.outcome === 'done' ? `${nameOf(key)} is revoked.` : problemText(done.refusal),
          )
        },
      },
    }),
  ]
}

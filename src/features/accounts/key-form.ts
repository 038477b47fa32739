import type { KeyScope as Scope } from '../../kernel/scopes.ts'
import { choicesOf, type FormInput, fieldOf, type Problems } from '../../platform/ui/form.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { parseCents } from '../../platform/ui/text.ts'
import { parseNetworks } from './api-key.ts'

const dayMs = 86_400_000
const maxCapCents = 1_000_000_000
const maxDays = 3_650
const maxName = 64

/** The fields of the key form. `value` is null if a field is invalid. */
export type KeyInput = {
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
  if (!/^\d{1,4}$/.test(text)) return undefined
  const days = Number(text)
  return days >= 1 && days <= maxDays ? days : undefined
}

export const capProblem = `Type dollars such as 50 or 50.25, at most ${maxCapCents / 100}.`
const daysProblem = `Type whole days, 1 to ${maxDays}.`

/** Parses the form. Problems are listed per field. */
export const parseKeyForm = (
  typed: FormInput,
  nowMs: number,
): { readonly input: KeyInput } | { readonly problems: Problems } => {
  const name = typed.text('name')
  const scopes = typed.all('scopes')
  const cap = parseCap(typed.text('cap'))
  const days = daysOf(typed.text('days'))
  const networksText = typed.text('networks')
  const networks =
    networksText === '' ? { networks: null } : parseNetworks(networksText.replaceAll(/\s+/g, ','))
  const knownScopes = scopes.filter((scope): scope is Scope => scope === 'buy' || scope === 'scrape')
  const problems: Problems = {
    ...((name.length > maxName || /\p{C}/u.test(name)) && {
      name: `A name has at most ${maxName} characters, on one line.`,
    }),
    ...((knownScopes.length === 0 || knownScopes.length !== scopes.length) && {
      scopes: 'Tick what the key may do.',
    }),
    ...(cap === undefined && { cap: capProblem }),
    ...(days === undefined && { days: daysProblem }),
    ...('problem' in networks && { networks: networks.problem }),
  }
  if (Object.keys(problems).length > 0 || cap === undefined || days === undefined || 'problem' in networks)
    return { problems }
  return {
    input: {
      name: name === '' ? null : name,
      scopes: [...new Set(knownScopes)],
      dailyCapCents: cap,
      networks: networks.networks,
      expiresAtMs: days === null ? null : nowMs + days * dayMs,
    },
  }
}

export const capField = (typed: FormInput, problems: Problems, value = ''): Html =>
  fieldOf(
    {
      name: 'cap',
      label: 'Daily cap, USD',
      hint: 'What orders with the key may cost in any 24 hours. Empty: no cap.',
      inputmode: 'decimal',
      maxlength: 16,
      value,
    },
    typed,
    problems,
  )

export const daysField = (typed: FormInput, problems: Problems): Html =>
  fieldOf(
    {
      name: 'days',
      label: 'Works for, days',
      hint: 'Empty: until it is revoked.',
      inputmode: 'numeric',
      maxlength: 4,
    },
    typed,
    problems,
  )

/** The fields of a new key. */
export const keyFields = (typed: FormInput, problems: Problems): Html => html`${fieldOf(
  {
    name: 'name',
    label: 'What it is for',
    hint: 'Such as "web shop". It stays in the log for good: name no person.',
    maxlength: maxName,
  },
  typed,
  problems,
)}
${choicesOf(
  {
    name: 'scopes',
    legend: 'What it may do',
    chosen: ['buy'],
    choices: [
      { value: 'buy', label: 'buy', hint: 'order, and read what was bought' },
      { value: 'scrape', label: 'scrape', hint: 'run scrapers' },
    ],
  },
  typed,
  problems,
)}
${capField(typed, problems)}
${daysField(typed, problems)}
${fieldOf(
  {
    name: 'networks',
    label: 'Works from',
    hint: 'Addresses and networks with commas between, such as 203.0.113.0/24. Empty: from anywhere.',
    maxlength: 2_000,
  },
  typed,
  problems,
)}`

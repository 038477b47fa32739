import { isUtf8 } from 'node:buffer'
import { type ApiError, refuse } from '../http/errors.ts'
import { refusalOf } from './answer-page.ts'
import { type Html, html, nothing } from './html.ts'

/** Parses the whole cents of a hidden field; undefined for any other text. */
export const parseWholeCents = (text: string): number | undefined =>
  /^\d{1,12}$/.test(text) ? Number(text) : undefined

const fieldOfCode: Readonly<Record<string, string>> = {
  invalid_quantity: 'quantity',
  invalid_country: 'country',
  invalid_period: 'period_days',
}

/**
 * The problem of a refusal, by its field.
 * @throws the error if it is not a refusal
 */
export const problemOfRefusal = (error: unknown): Problems => {
  const { text } = refusalOf(error)
  return { [fieldOfCode[(error as ApiError).code] ?? 'form']: text }
}

/** The sent values of a form. */
export type FormInput = {
  /** The text of a field, without blanks around it; empty if it was not sent. */
  text(name: string): string
  all(name: string): readonly string[]
  /**
   * Identifies this submission, however often it is sent: the idempotency key of the action. Empty if it is not valid.
   */
  readonly key: string
}

const maxFields = 300

/** The input before anything is typed. */
export const emptyFormInput: FormInput = { text: () => '', all: () => [], key: '' }

/** @throws invalid_body for input that no form of the service sends */
export const parseFormInput = (raw: Uint8Array): FormInput => {
  if (!isUtf8(raw)) throw refuse('invalid_body', 'the form is not UTF-8')
  const fields = new URLSearchParams(Buffer.from(raw).toString('utf8'))
  if (fields.size > maxFields) throw refuse('invalid_body', `the form has more than ${maxFields} fields`)
  for (const [name, value] of fields)
    if (/\0/.test(name + value) || !(name + value).isWellFormed())
      throw refuse('invalid_body', 'the form holds a character that no text has')
  const text = (name: string): string => (fields.get(name) ?? '').trim()
  const key = text('form')
  return { text, all: (name) => fields.getAll(name), key: /^[A-Za-z0-9_-]{43}$/.test(key) ? key : '' }
}

/** Messages by the name of the field; `form` is the whole form. */
export type Problems = Readonly<Record<string, string>>

export type Field = {
  readonly name: string
  readonly label: string
  readonly hint?: string
  /** The typed text of a `password` is never sent back: the field is empty again. */
  readonly type?: 'text' | 'email' | 'number' | 'search' | 'password'
  readonly inputmode?: 'numeric' | 'decimal'
  readonly autocomplete?: string
  readonly required?: true
  readonly maxlength?: number
  readonly value?: string
}

const attribute = (name: string, value: string | number | undefined): Html =>
  value === undefined ? nothing : html` ${{ html: name }}="${value}"`

const describedBy = (name: string, hint: string | undefined, problem: string | undefined): Html => {
  const ids = [
    ...(hint === undefined ? [] : [`${name}-hint`]),
    ...(problem === undefined ? [] : [`${name}-problem`]),
  ]
  return ids.length === 0 ? nothing : html` aria-describedby="${ids.join(' ')}"`
}

const labelled = (
  name: string,
  label: string,
  hint: string | undefined,
  problem: string | undefined,
  control: Html,
): Html =>
  html`<div class="field">
<label for="${name}">${label}</label>
${hint === undefined ? null : html`<p class="hint" id="${name}-hint">${hint}</p>`}
${control}
${problem === undefined ? null : html`<p class="problem" id="${name}-problem">${problem}</p>`}
</div>`

/** A field with its label, its hint, the typed value and its problem. */
export const fieldOf = (field: Field, typed: FormInput, problems: Problems = {}): Html => {
  const { name, label, hint, type = 'text', inputmode, autocomplete, required, maxlength } = field
  const problem = problems[name]
  const currentValue = typed === emptyFormInput ? (field.value ?? '') : typed.text(name)
  const value = type === 'password' ? '' : currentValue
  return labelled(
    name,
    label,
    hint,
    problem,
    html`<input id="${name}" name="${name}" type="${type}" value="${value}"${attribute('inputmode', inputmode)}${attribute('autocomplete', autocomplete)}${attribute('maxlength', maxlength)}${required ? { html: ' required' } : null}${problem === undefined ? null : { html: ' aria-invalid="true"' }}${describedBy(name, hint, problem)}>`,
  )
}

/** A field with several lines. */
export const textAreaOf = (
  field: Pick<Field, 'name' | 'label' | 'hint' | 'value'>,
  typed: FormInput,
  problems: Problems = {},
): Html => {
  const { name, label, hint } = field
  const problem = problems[name]
  const value = typed === emptyFormInput ? (field.value ?? '') : typed.text(name)
  return labelled(
    name,
    label,
    hint,
    problem,
    html`<textarea id="${name}" name="${name}" rows="3"${problem === undefined ? null : { html: ' aria-invalid="true"' }}${describedBy(name, hint, problem)}>\n${value}</textarea>`,
  )
}

export type Choice = { readonly value: string; readonly label: string; readonly hint?: string }

/** Checkboxes, or (`one`) radio buttons. */
export const choicesOf = (
  group: {
    readonly name: string
    readonly legend: string
    readonly choices: readonly Choice[]
    readonly chosen: readonly string[]
    readonly one?: true
  },
  typed: FormInput,
  problems: Problems = {},
): Html => {
  const { name, legend, choices, one } = group
  const problem = problems[name]
  const chosen = typed === emptyFormInput ? group.chosen : typed.all(name)
  return html`<fieldset class="field"${problem === undefined ? null : html` aria-describedby="${name}-problem"`}>
<legend>${legend}</legend>
${choices.map(
  ({ value, label, hint }) =>
    html`<label class="choice"><input type="${one ? 'radio' : 'checkbox'}" name="${name}" value="${value}"${chosen.includes(value) ? { html: ' checked' } : null}> <span>${label}${hint === undefined ? null : html` <small>${hint}</small>`}</span></label>\n`,
)}${problem === undefined ? null : html`<p class="problem" id="${name}-problem">${problem}</p>`}
</fieldset>`
}

/** A list to choose one value from. */
export const selectOf = (
  field: Pick<Field, 'name' | 'label' | 'hint'> & {
    readonly choices: readonly Choice[]
    readonly value: string
  },
  problems: Problems = {},
): Html => {
  const { name, label, hint, choices, value } = field
  const problem = problems[name]
  const options = choices.map(
    (each) =>
      html`<option value="${each.value}"${each.value === value ? { html: ' selected' } : null}>${each.label}</option>`,
  )
  return labelled(
    name,
    label,
    hint,
    problem,
    html`<select id="${name}" name="${name}"${problem === undefined ? null : { html: ' aria-invalid="true"' }}${describedBy(name, hint, problem)}>${options}</select>`,
  )
}

export const hiddenOf = (name: string, value: string | number): Html =>
  html`<input type="hidden" name="${name}" value="${value}">`

/** Lists the problems of a form above it, with links to the fields. */
export const problemsOf = (problems: Problems): Html => {
  const problemEntries = Object.entries(problems)
  if (problemEntries.length === 0) return nothing
  return html`<div class="said bad" role="alert"><p>Nothing was changed.</p><ul>${problemEntries.map(
    ([name, text]) =>
      name === 'form' ? html`<li>${text}</li>` : html`<li><a href="#${name}">${text}</a></li>`,
  )}</ul></div>`
}

/** The hidden field with the key of a submission: a form that is sent twice acts once. */
export const keyField = (key: string): Html => hiddenOf('form', key)

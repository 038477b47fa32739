import { isUtf8 } from 'node:buffer'
import { refuse } from '../http/errors.ts'
import { type Html, html, nothing } from './html.ts'

/** Parses the whole cents of a hidden field; undefined for any other text. */
export const parseWholeCents = (text: string): number | undefined =>
  /^\d{1,12}$/.test(text) ? Number(text) : undefined

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

/** Problems by the name of the field; `form` is the whole form. */
export type Problems = Readonly<Record<string, string>>

/** The problems whose check failed; null: there is none. `{ name: name === '' && 'Type a name.' }` */
export const problemsIn = (checks: Readonly<Record<string, string | false | undefined>>): Problems | null => {
  const failed = Object.entries(checks).filter((check): check is [string, string] => !!check[1])
  return failed.length === 0 ? null : Object.fromEntries(failed)
}

/** The form of a page: as it is first shown, or refused, with the typed values and their problems. */
export type FormState = {
  /** Identifies its next submission. */
  readonly key: string
  readonly typed: FormInput
  readonly problems: Problems
  /** Shown above the page in place of the problems. */
  readonly message: Html | null
}

export const newFormState = (key: string): FormState => ({
  key,
  typed: emptyFormInput,
  problems: {},
  message: null,
})

/** What the field functions need of a form. */
type Typed = Pick<FormState, 'typed' | 'problems'>

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

const flag = (name: string, isSet: boolean | undefined): Html => (isSet ? { html: ` ${name}` } : nothing)

const typedValue = ({ name, value = '' }: Pick<Field, 'name' | 'value'>, { typed }: Typed): string =>
  typed === emptyFormInput ? value : typed.text(name)

/** A control with its label, its hint and its problem. `render` gets the attributes that all controls have. */
const labelled = (
  { name, label, hint }: Pick<Field, 'name' | 'label' | 'hint'>,
  { problems }: Typed,
  render: (attributes: Html) => Html,
): Html => {
  const problem = problems[name]
  const ids = [...(hint ? [`${name}-hint`] : []), ...(problem ? [`${name}-problem`] : [])].join(' ')
  return html`<div class="field">
<label for="${name}">${label}</label>
${hint ? html`<p class="hint" id="${name}-hint">${hint}</p>` : null}
${render(html` id="${name}" name="${name}"${flag('aria-invalid="true"', problem !== undefined)}${attribute('aria-describedby', ids || undefined)}`)}
${problem ? html`<p class="problem" id="${name}-problem">${problem}</p>` : null}
</div>`
}

/** A field with its label, its hint, the typed value and its problem. */
export const fieldOf = (field: Field, form: Typed): Html => {
  const { type = 'text', inputmode, autocomplete, required, maxlength } = field
  const value = type === 'password' ? '' : typedValue(field, form)
  return labelled(
    field,
    form,
    (attributes) =>
      html`<input${attributes} type="${type}" value="${value}"${attribute('inputmode', inputmode)}${attribute('autocomplete', autocomplete)}${attribute('maxlength', maxlength)}${flag('required', required)}>`,
  )
}

/** A field with several lines. */
export const textAreaOf = (field: Pick<Field, 'name' | 'label' | 'hint' | 'value'>, form: Typed): Html =>
  labelled(
    field,
    form,
    (attributes) => html`<textarea${attributes} rows="3">\n${typedValue(field, form)}</textarea>`,
  )

export type Choice = { readonly value: string; readonly label: string; readonly hint?: string }

/** Choices whose labels are their values. */
export const choicesFrom = (values: readonly string[]): readonly Choice[] =>
  values.map((value) => ({ value, label: value.replaceAll('_', ' ') }))

/** Checkboxes, or (`one`) radio buttons. */
export const choicesOf = (
  group: {
    readonly name: string
    readonly legend: string
    readonly choices: readonly Choice[]
    readonly chosen: readonly string[]
    readonly one?: true
  },
  { typed, problems }: Typed,
): Html => {
  const { name, legend, choices, one } = group
  const problem = problems[name]
  const chosen = typed === emptyFormInput ? group.chosen : typed.all(name)
  return html`<fieldset class="field"${attribute('aria-describedby', problem && `${name}-problem`)}>
<legend>${legend}</legend>
${choices.map(
  ({ value, label, hint }) =>
    html`<label class="choice"><input type="${one ? 'radio' : 'checkbox'}" name="${name}" value="${value}"${flag('checked', chosen.includes(value))}> <span>${label}${hint === undefined ? null : html` <small>${hint}</small>`}</span></label>\n`,
)}${problem === undefined ? null : html`<p class="problem" id="${name}-problem">${problem}</p>`}
</fieldset>`
}

export const optionsOf = (choices: readonly Choice[], chosen: string): readonly Html[] =>
  choices.map(
    ({ value, label }) =>
      html`<option value="${value}"${flag('selected', value === chosen)}>${label}</option>`,
  )

/** A list to choose one value from. */
export const selectOf = (
  field: Pick<Field, 'name' | 'label' | 'hint' | 'value'> & { readonly choices: readonly Choice[] },
  form: Typed,
): Html =>
  labelled(
    field,
    form,
    (attributes) => html`<select${attributes}>${optionsOf(field.choices, typedValue(field, form))}</select>`,
  )

export const hiddenOf = (name: string, value: string | number): Html =>
  html`<input type="hidden" name="${name}" value="${value}">`

/** Lists the problems of a form above it, with links to the fields. */
export const problemsOf = (problems: Problems): Html => {
  const problemEntries = Object.entries(problems)
  if (problemEntries.length === 0) return nothing
  return html`<div class="message bad" role="alert"><p>Nothing was changed.</p><ul>${problemEntries.map(
    ([name, text]) =>
      name === 'form' ? html`<li>${text}</li>` : html`<li><a href="#${name}">${text}</a></li>`,
  )}</ul></div>`
}

/** The hidden field with the key of a submission: a form that is sent twice acts once. */
export const keyField = (key: string): Html => hiddenOf('form', key)

/** A form that is sent to its own page. */
export const formOf = (
  { key }: FormState,
  {
    fields = [],
    submit,
    danger,
    plain,
    back,
    backLabel = 'Back',
    action,
    more = nothing,
  }: {
    readonly fields?: readonly (Html | null)[]
    /** The label of its button. */
    readonly submit: string
    readonly danger?: true
    /** The button is not the main one of the page. */
    readonly plain?: true
    /** The page to return to. */
    readonly back?: string
    readonly backLabel?: string
    /** Left out: the page's own path. */
    readonly action?: string
    /** Buttons after the main one, which the Enter key presses. */
    readonly more?: Html
  },
): Html => html`<form method="post"${attribute('action', action)} class="stack" novalidate>
${keyField(key)}
${fields.filter((field) => field !== null)}
<div class="actions"><button${attribute('class', danger ? 'danger' : plain ? undefined : 'first')}>${submit}</button>${more}${back === undefined ? null : html` <a href="${back}">${backLabel}</a>`}</div>
</form>`

/** A button that sends one value. `of` names its row for screen readers. */
export const postButton = (
  { key }: Pick<FormState, 'key'>,
  button: {
    readonly label: string
    readonly name: string
    readonly value: string
    readonly of?: string
    readonly action?: string
    readonly fields?: Html
  },
): Html =>
  html`<form method="post"${attribute('action', button.action)} class="inline">${keyField(key)}${button.fields ?? null}<button${attribute('class', button.of === undefined ? undefined : 'plain')} name="${button.name}" value="${button.value}">${button.label}${button.of === undefined ? null : html` <span class="skip">${button.of}</span>`}</button></form>`

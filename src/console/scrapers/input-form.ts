import { type Html, html, nothing } from '../../platform/pages/html.ts'
import { acceptedOf } from '../../scrapers/catalog/check.ts'
import { exampleBody, type Input, type InputValue, type ScraperRow } from '../../scrapers/catalog/row.ts'
import { choicesOf, fieldOf, hiddenOf, type Problems, selectOf, type Typed, untyped } from '../frame/form.ts'

/** The name of the form's field for an input: none of them is one of the frame's own. */
export const fieldName = ({ name }: Pick<Input, 'name'>): string => `in-${name}`

const hintOf = (input: Input, needed: boolean): string =>
  [
    `${input.description}.`,
    ...(input.values || input.kind === 'boolean' ? [] : [`It must be ${acceptedOf(input)}.`]),
    needed ? 'Needed.' : input.default === undefined ? 'May be left out.' : `Left out: ${input.default}.`,
  ].join(' ')

const controlOf = (row: ScraperRow, input: Input, typed: Typed, problems: Problems): Html => {
  const name = fieldName(input)
  const example = exampleBody(row)[input.name]
  const atFirst = example === undefined ? '' : String(example)
  const hint = hintOf(input, input.required)
  if (input.kind === 'boolean')
    return choicesOf(
      { name, legend: input.name, chosen: [], choices: [{ value: 'true', label: 'yes', hint }] },
      typed,
      problems,
    )
  if (input.values)
    return selectOf(
      {
        name,
        label: input.name,
        hint,
        value: typed === untyped ? atFirst : typed.text(name),
        choices: [
          ...(input.required ? [] : [{ value: '', label: 'left out' }]),
          ...input.values.map((value) => ({ value: String(value), label: String(value) })),
        ],
      },
      problems,
    )
  return fieldOf({ name, label: input.name, hint, value: atFirst }, typed, problems)
}

/** The fields of a scraper, made from its row. At first they hold an example that is accepted. */
export const inputFields = (row: ScraperRow, typed: Typed, problems: Problems): Html =>
  html`${
    row.oneOf.length === 0
      ? nothing
      : html`${row.oneOf.map((names) => html`<p class="soft">At least one of ${names.join(', ')} must be given.</p>\n`)}`
  }${row.inputs.map((input) => html`${controlOf(row, input, typed, problems)}\n`)}`

const typedValue = (input: Input, text: string): InputValue => {
  if (input.kind === 'boolean') return text === 'true'
  if (input.values) return input.values.find((value) => String(value) === text) ?? text
  return input.kind === 'integer' && /^-?\d{1,15}$/.test(text) ? Number(text) : text
}

/** The body of a call as it was typed; fields that are empty are left out. What is wrong is told by the check of calls. */
export const bodyOf = (row: ScraperRow, typed: Typed): Readonly<Record<string, InputValue>> =>
  Object.fromEntries(
    row.inputs.flatMap((input) => {
      const text = typed.text(fieldName(input))
      return text === '' ? [] : [[input.name, typedValue(input, text)]]
    }),
  )

/** A refusal of a body beside the field that it names, or else above the form. */
export const inputProblems = (row: ScraperRow, details: string): Problems => {
  const [word = ''] = details.split(/[ :]/)
  const named = row.inputs.find(({ name }) => name === word)
  return { [named ? fieldName(named) : 'form']: details }
}

/** The same as typed, sent again with one input changed. */
export const hiddenInputs = (
  row: ScraperRow,
  body: Readonly<Record<string, InputValue>>,
  changed: Readonly<Record<string, InputValue>>,
): Html =>
  html`${row.inputs.map((input) => {
    const value = changed[input.name] ?? body[input.name]
    return value === undefined ? nothing : hiddenOf(fieldName(input), String(value))
  })}`

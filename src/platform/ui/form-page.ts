import {
  type Choice,
  choicesOf,
  type Field,
  type FormInput,
  type FormState,
  fieldOf,
  formOf,
  hiddenOf,
  problemsIn,
  selectOf,
  textAreaOf,
} from './form.ts'
import type { View } from './frame.ts'
import { type Html, html, nothing } from './html.ts'
import {
  type Act,
  type Common,
  type ConsolePage,
  type FormRefusal,
  type PageOutcome,
  refused,
  refusedBy,
  type Visit,
} from './page.ts'

/** The problem of a typed value that a field does not accept. */
type Invalid = { readonly problem: string }

/** A field of a form: its control, and the parser of its typed value. `Result`: the value, `Invalid`, or a promise. */
type FormField<Result> = {
  show(name: string, form: FormState): Html
  parse(typed: FormInput, name: string): Result
}

type FormFields = Readonly<Record<string, FormField<unknown>>>

/** The values that the fields of a form parse. */
type FormValues<Fields extends FormFields> = {
  readonly [Name in keyof Fields]: Exclude<Awaited<ReturnType<Fields[Name]['parse']>>, Invalid>
}

/** A text with a parser. Without `parse`, the value is the typed text. */
type TextOptions = Omit<Field, 'name'> & { readonly parse?: (text: string) => unknown }

type ResultOf<Options extends TextOptions> = Options extends {
  readonly parse: (text: string) => infer Result
}
  ? Result
  : string

const textFieldWith =
  (show: (field: Field, form: FormState) => Html) =>
  <Options extends TextOptions>(options: Options): FormField<ResultOf<Options>> => {
    const { parse = (text) => text, ...field }: TextOptions = options
    return {
      show: (name, form) => show({ ...field, name }, form),
      parse: (typed, name) => parse(typed.text(name)) as ResultOf<Options>,
    }
  }

export const textField = textFieldWith(fieldOf)

/** A text with several lines. */
export const textAreaField = textFieldWith(textAreaOf)

export const hiddenField = (value: string): FormField<string> => ({
  show: (name) => hiddenOf(name, value),
  parse: (typed, name) => typed.text(name),
})

type ChoiceOptions<Value extends string> = {
  readonly label: string
  readonly hint?: string
  readonly choices: readonly (Choice & { readonly value: Value })[]
  readonly value?: NoInfer<Value>
  /** Shown for any other value. */
  readonly problem?: string
}

const choiceFieldWith =
  (show: (field: ChoiceOptions<string> & { readonly name: string }, form: FormState) => Html) =>
  <const Value extends string>(field: ChoiceOptions<Value>): FormField<Value | Invalid> => ({
    show: (name, form) => show({ ...field, name }, form),
    parse: (typed, name) =>
      field.choices.find(({ value }) => value === typed.text(name))?.value ?? {
        problem: field.problem ?? 'Choose one of the listed values.',
      },
  })

/** A list to choose one value from. */
export const selectField = choiceFieldWith(selectOf)

/** Radio buttons. */
export const radioField = choiceFieldWith(({ label, value = '', ...group }, form) =>
  choicesOf({ ...group, legend: label, chosen: [value], one: true }, form),
)

/** Checkboxes. Without choices, nothing is shown. */
export const checkboxField = <Result>(field: {
  readonly label: string
  readonly choices: readonly Choice[]
  readonly ticked: readonly string[]
  readonly parse: (texts: readonly string[]) => Result
}): FormField<Result> => ({
  show: (name, form) =>
    field.choices.length === 0
      ? nothing
      : choicesOf({ name, legend: field.label, choices: field.choices, chosen: field.ticked }, form),
  parse: (typed, name) => field.parse(typed.all(name)),
})

type Outcome = View | PageOutcome | FormRefusal

/** A form without the types of its fields. */
type PageForm = {
  show(state: FormState): View
  run(typed: FormInput): Promise<Outcome>
}

/** Declares a form and its page. `run` gets the values of the fields: write it after them. */
export const pageForm = <const Fields extends FormFields = Record<never, never>>(
  form: Omit<View, 'body'> &
    Omit<Parameters<typeof formOf>[1], 'fields' | 'more'> & {
      /** Shown above the form. */
      readonly intro?: Html
      readonly fields?: Fields
      /** `key` identifies the submission. The form shows what the API would refuse. */
      readonly run: (values: FormValues<Fields>, key: string) => Promise<Outcome>
    },
): PageForm => {
  const fields = Object.entries<FormField<unknown>>(form.fields ?? {})
  return {
    show: (state) => ({
      ...form,
      body: html`${form.intro ?? null}
${formOf(state, { ...form, fields: fields.map(([name, field]) => field.show(name, state)) })}`,
    }),
    run: async (typed) => {
      const values: Record<string, unknown> = {}
      const checks: Record<string, string> = {}
      for (const [name, field] of fields) {
        const result = await field.parse(typed, name)
        if (typeof result === 'object' && result !== null && 'problem' in result)
          checks[name] = String(result.problem)
        else values[name] = result
      }
      const problems = problemsIn(checks)
      if (problems) return refused(problems)
      return form.run(values as FormValues<Fields>, typed.key).catch(refusedBy)
    },
  }
}

/**
 * A page that is a form. Its values are parsed and checked before they get to `run`. A refused form is shown again,
 * with the typed values and the problems.
 */
export const formPage = <V extends Visit>(
  createPage: (page: Common & { show(visit: V): Promise<View>; readonly act: Act<V> }) => ConsolePage,
  {
    form,
    act,
    ...page
  }: Common & {
    /** The form for a visit. It is called to show the form, and to run it. */
    readonly form: (visit: V) => PageForm | Promise<PageForm>
    readonly act?: Omit<Act<V>, 'run'>
  },
): ConsolePage =>
  createPage({
    ...page,
    show: async (visit) => (await form(visit)).show(visit.form),
    act: { ...act, run: async (visit, typed) => (await form(visit)).run(typed) },
  })

/** The placeholders in a template for a supplier's username and password. */
export const placeholders = [
  'country',
  'COUNTRY',
  'state',
  'city',
  'isp',
  'asn',
  'os',
  'session',
  'lifetime',
] as const
type Placeholder = (typeof placeholders)[number]
type TemplateValues = Readonly<Partial<Record<Placeholder, string>>>

/** A text, a placeholder, or an optional part that is used only if all of its placeholders have a value. */
type Part = string | { readonly placeholder: Placeholder } | { readonly optional: readonly Part[] }

const placeholderNames: ReadonlySet<string> = new Set(placeholders)

const formOf = (template: string): { readonly parts: readonly Part[] } | { readonly problem: string } => {
  const topParts: Part[] = []
  let nested: Part[] | null = null
  for (const [token] of template.matchAll(/\{[^{}]*\}|[[\]{}]|[^[\]{}]+/g)) {
    if (token === '[') {
      if (nested !== null) return { problem: 'no [ within [ ]' }
      nested = []
    } else if (token === ']') {
      if (nested === null) return { problem: 'a [ before each ]' }
      topParts.push({ optional: nested })
      nested = null
    } else if (token.startsWith('{') || token === '}') {
      const name = token.slice(1, -1)
      if (!placeholderNames.has(name))
        return { problem: `placeholders of ${placeholders.map((p) => `{${p}}`).join(' ')}` }
      ;(nested ?? topParts).push({ placeholder: name as Placeholder })
    } else (nested ?? topParts).push(token)
  }
  return nested === null ? { parts: topParts } : { problem: 'a ] behind each [' }
}

/** What a template should be instead, or null if it is well formed. */
export const templateProblem = (template: string): string | null => {
  const form = formOf(template)
  return 'problem' in form ? form.problem : null
}

const isMissing = (part: Part, values: TemplateValues): boolean =>
  typeof part === 'object' && 'placeholder' in part && values[part.placeholder] === undefined

const fill = (parts: readonly Part[], values: TemplateValues): string =>
  parts
    .map((part) => {
      if (typeof part === 'string') return part
      if ('placeholder' in part) return values[part.placeholder] ?? ''
      return part.optional.some((nested) => isMissing(nested, values)) ? '' : fill(part.optional, values)
    })
    .join('')

/** A parsed template. */
export type Template = { fill(values: TemplateValues): string }

/** @throws RangeError if `templateProblem` finds a problem */
export const createTemplate = (template: string): Template => {
  const form = formOf(template)
  if ('problem' in form) throw new RangeError(`a template takes ${form.problem}`)
  return { fill: (values) => fill(form.parts, values) }
}

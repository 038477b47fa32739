import type { z } from 'zod'

type Keywords = Readonly<Record<string, unknown>>
type Fields = Readonly<Record<string, unknown>>

/** A condition on the fields of a body: its form in JSON Schema, and its check. */
type Condition = { readonly keywords: Keywords; holds(fields: Fields): boolean }

/** The field has a value of this type. Null is the same as leaving the field out. */
export const given = (name: string, type: 'string' | 'integer' | 'array'): Condition => ({
  keywords: { required: [name], properties: { [name]: { type } } },
  holds: (fields) => fields[name] !== undefined && fields[name] !== null,
})

/** The field has this value. */
export const equals = (name: string, value: string): Condition => ({
  keywords: { required: [name], properties: { [name]: { type: 'string', enum: [value] } } },
  holds: (fields) => fields[name] === value,
})

export const not = (condition: Condition): Condition => ({
  keywords: { not: condition.keywords },
  holds: (fields) => !condition.holds(fields),
})

/** If `condition` holds, `then` must hold, else `otherwise`. Code generators ignore these keywords. */
export const when = (condition: Condition, then: Condition, otherwise?: Condition): Condition => ({
  keywords: {
    if: condition.keywords,
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: then.keywords,
    ...(otherwise && { else: otherwise.keywords }),
  },
  holds: (fields) => (condition.holds(fields) ? then : otherwise)?.holds(fields) ?? true,
})

const never: Condition = { keywords: { not: {} }, holds: () => false }

/** At least one of the conditions holds. */
export const someOf = (conditions: readonly Condition[]): Condition =>
  conditions.reduceRight((others, condition) => when(not(condition), others), never)

/** All conditions hold. Generators make classes of `allOf`, and Go's ignore the fields beside it. */
export const allOf = (conditions: readonly [Condition, ...Condition[]]): Condition =>
  conditions.reduceRight((others, condition) => when(condition, others, never))

/** Exactly one of two fields has a value. */
export const either = (first: Condition, second: Condition): Condition => when(first, not(second), second)

/**
 * Adds a condition on several fields to the schema of a body, for the check and for the interface description.
 * @param requirement follows "the body", such as `must have either proxy_ids or order_id`
 */
export const withRule = <Body extends z.ZodObject>(
  body: Body,
  { keywords, holds }: Condition,
  requirement: string,
): Body =>
  body
    .refine((fields) => holds(fields as Fields), { error: requirement })
    .meta({ ...body.meta(), ...keywords }) as Body

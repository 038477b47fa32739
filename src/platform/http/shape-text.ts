import { counted } from '../../kernel/counted.ts'
import type { JsonSchema } from './json-schema.ts'
import { resolved } from './json-schema.ts'

const bounds = ({ minimum, maximum }: JsonSchema): string => {
  if (minimum !== undefined && maximum !== undefined) return ` from ${minimum} to ${maximum}`
  if (minimum !== undefined) return ` of at least ${minimum}`
  return maximum === undefined ? '' : ` of at most ${maximum}`
}

const nouns: Readonly<Record<string, string>> = {
  string: 'a text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null',
}

const lengths = (
  min: number | undefined,
  max: number | undefined,
  unit: readonly [one: string, more: string],
): string => {
  if (min !== undefined && max !== undefined)
    return min === max ? ` of ${counted(max, ...unit)}` : ` of ${min} to ${counted(max, ...unit)}`
  if (max !== undefined) return ` of at most ${counted(max, ...unit)}`
  return min === undefined ? '' : ` of at least ${counted(min, ...unit)}`
}

const entries = ['entry', 'entries'] as const
const characters = ['character', 'characters'] as const

/** What a value must be, in words: `a whole number of at least 1`, `one of wallet, card`. */
export const inWords = (schema: JsonSchema | undefined, root: JsonSchema): string => {
  if (schema === undefined) return 'a documented value'
  const node = resolved(schema, root)
  if (node.words !== undefined) return node.words
  if (node.enum !== undefined) return `one of ${node.enum.join(', ')}`
  if (node.const !== undefined) return JSON.stringify(node.const)
  const choices = node.anyOf ?? node.oneOf
  if (choices !== undefined) return choices.map((choice) => inWords(choice, root)).join(' or ')
  const types = typeof node.type === 'string' ? [node.type] : (node.type ?? [])
  if (types.length === 0) return 'a documented value'
  return types.map((type) => `${nouns[type] ?? type}${detail(type, node)}`).join(' or ')
}

const detail = (type: string, node: JsonSchema): string => {
  if (type === 'integer' || type === 'number') return bounds(node)
  if (type === 'array') return lengths(node.minItems, node.maxItems, entries)
  if (type !== 'string') return ''
  if (typeof node.format === 'string') return ` in the form ${node.format}`
  if (typeof node.pattern === 'string') return ` that matches ${node.pattern}`
  return lengths(node.minLength, node.maxLength, characters)
}

/** The expected shape of a body on one line: `{"product_id": text, "quantity": whole number, "method"?: "wallet" | "card"}`. */
export const shapeOf = (schema: JsonSchema, root: JsonSchema = schema): string => {
  const node = resolved(schema, root)
  if (node.enum !== undefined) return node.enum.map((value) => JSON.stringify(value)).join(' | ')
  if (node.const !== undefined) return JSON.stringify(node.const)
  const choices = node.anyOf ?? node.oneOf
  if (choices !== undefined) return choices.map((choice) => shapeOf(choice, root)).join(' | ')
  if (node.properties !== undefined) return `{${members(node, root)}}`
  if (node.items !== undefined) return `[${shapeOf(node.items, root)}]`
  if (typeof node.type === 'string') return node.type
  return node.type?.join(' | ') ?? 'value'
}

const members = (node: JsonSchema, root: JsonSchema): string =>
  Object.entries(node.properties ?? {})
    .map(([name, member]) => `"${name}"${node.required?.includes(name) ? '' : '?'}: ${shapeOf(member, root)}`)
    .join(', ')

import type { z } from 'zod'
import type { JsonSchema } from '../json-schema.ts'
import { jsonSchemaOf } from '../json-schema.ts'

type Json = Readonly<Record<string, unknown>>

/** The named schemas of a document, gathered while its operations are written. */
export type Components = {
  /** The schema as it stands in an operation: schemas with an id are references. */
  add(schema: z.ZodType, io: 'input' | 'output'): Json
  readonly schemas: Readonly<Record<string, Json>>
  /** A response that many operations share, under its name; gives the reference to it. */
  share(name: string, response: Json): Json
  readonly responses: Readonly<Record<string, Json>>
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null

/** Rewrites every object of a JSON value, innermost first. */
const rewrite = (value: unknown, change: (node: Record<string, unknown>) => Json): unknown => {
  if (Array.isArray(value)) return value.map((item) => rewrite(item, change))
  if (!isObject(value)) return value
  return change(Object.fromEntries(Object.entries(value).map(([key, item]) => [key, rewrite(item, change)])))
}

const definition = '#/$defs/'

const reference = (node: Record<string, unknown>, names: ReadonlyMap<string, string>): Json => {
  const { $ref } = node
  if (typeof $ref !== 'string' || !$ref.startsWith(definition)) return node
  const name = $ref.slice(definition.length)
  return { ...node, $ref: `#/components/schemas/${names.get(name) ?? name}` }
}

/** Answers may grow fields, so clients must not be told to refuse them; tests are told, so that none slips in. */
const open = (node: Record<string, unknown>): Json => {
  const { additionalProperties, ...rest } = node
  return additionalProperties === false ? rest : node
}

/** zod leaves the id of a named schema in it; a property that is named `id` is a schema, not a text. */
const withoutId = (node: Json): Json => {
  const { id, ...rest } = node
  return typeof id === 'string' ? rest : node
}

/** @param closedAnswers keeps `additionalProperties: false` in answers: for tests */
export const createComponents = (closedAnswers: boolean): Components => {
  const schemas: Record<string, Json> = {}
  const responses: Record<string, Json> = {}

  /** The same id may read differently as sent and as answered; the former is then named apart. */
  const keep = (id: string, schema: Json, io: 'input' | 'output'): string => {
    const name = [id, `${id}${io === 'input' ? 'Input' : 'Answer'}`].find(
      (candidate) =>
        schemas[candidate] === undefined || JSON.stringify(schemas[candidate]) === JSON.stringify(schema),
    )
    if (name === undefined) throw new Error(`two different schemas have the id ${id}`)
    schemas[name] = schema
    return name
  }

  return {
    schemas,
    responses,
    share(name, response) {
      const known = responses[name]
      if (known !== undefined && JSON.stringify(known) !== JSON.stringify(response))
        throw new Error(`two different responses have the name ${name}`)
      responses[name] = response
      return { $ref: `#/components/responses/${name}` }
    },
    add(schema, io) {
      const { $defs = {}, id, ...root }: JsonSchema = jsonSchemaOf(schema, io)
      const names = new Map<string, string>()
      const finish = (json: unknown): Json =>
        rewrite(json, (node) => {
          const rest = withoutId(reference(node, names))
          return io === 'output' && !closedAnswers ? open(rest) : rest
        }) as Json
      for (const [name, json] of Object.entries($defs)) names.set(name, keep(name, finish(json), io))
      if (typeof id !== 'string') return finish(root)
      return { $ref: `#/components/schemas/${keep(id, finish(root), io)}` }
    },
  }
}

type Json = Readonly<Record<string, unknown>>

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** `createOrder`, `price_changed` and `order.failed` become `CreateOrder`, `PriceChanged` and `OrderFailed`. */
export const pascal = (name: string): string =>
  name.replace(/(?:^|[^A-Za-z0-9])[^A-Za-z0-9]*([A-Za-z0-9]?)/g, (_match, letter: string) =>
    letter.toUpperCase(),
  )

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

/** Later versions may add fields to answers, so clients must not refuse unknown ones. Tests refuse them. */
const open = (node: Record<string, unknown>): Json => {
  const { additionalProperties, ...rest } = node
  return additionalProperties === false ? rest : node
}

/**
 * A named schema or null: `oneOf`, because many generators know no `anyOf`. The default is a part of the description:
 * generators would apply it to the choice, which has no values.
 */
const namedOrNull = ({ $ref, description, default: value, ...rest }: Json): Json => {
  const about = [description, value === undefined ? undefined : `Left out: \`${value}\`.`]
  const text = about.filter((part) => part !== undefined).join(' ')
  return { oneOf: [{ $ref }, { type: 'null' }], ...(text !== '' && { description: text }), ...rest }
}

/** The one form of a nullable value: `type: [X, "null"]`, and for a named schema a choice. */
export const nullable = (node: Json): Json => {
  const { default: value, ...rest } = node
  if (rest.$ref !== undefined) return namedOrNull(node)
  if (rest.type === undefined) return node
  const types = [rest.type].flat()
  return {
    ...(value === null ? rest : node),
    type: types.includes('null') ? types : [...types, 'null'],
  }
}

/** zod writes a nullable value as a choice. */
const nullableChoice = (node: Json): Json => {
  const { anyOf, ...rest } = node
  if (!Array.isArray(anyOf) || anyOf.length !== 2 || anyOf[1]?.type !== 'null') return node
  return nullable({ ...anyOf[0], ...rest })
}

/** An optional field of a request may also be null (src/platform/http/request-shape.ts). */
const takingNull = (node: Json): Json => {
  const { properties, required } = node
  if (node.type !== 'object' || !isObject(properties)) return node
  const isRequired = (name: string): boolean => Array.isArray(required) && required.includes(name)
  const fields = Object.entries(properties).map(([name, field]) => [
    name,
    isRequired(name) || !isObject(field) ? field : nullable(field),
  ])
  return { ...node, properties: Object.fromEntries(fields) }
}

const typeOfValue = (value: unknown): string => (Number.isInteger(value) ? 'integer' : typeof value)

/** Adds the type to an enumeration or a constant, and the items to a list. */
const typed = (node: Json): Json => {
  const values = Array.isArray(node.enum) ? node.enum : 'const' in node ? [node.const] : []
  const types = [...new Set(values.map(typeOfValue))]
  const isList = (typeof node.type === 'string' || Array.isArray(node.type)) && node.type.includes('array')
  return {
    ...node,
    ...(types.length > 0 && node.type === undefined && { type: types.length === 1 ? types[0] : types }),
    ...(isList && node.items === undefined && { items: {} }),
  }
}

/** Without a format, Java reads an integer as 32 bits, and Go a number. */
const formatted = (node: Json): Json => {
  const types = [node.type].flat()
  if (node.format !== undefined || (!types.includes('integer') && !types.includes('number'))) return node
  if (types.includes('number')) return { ...node, format: 'double' }
  const fits = typeof node.maximum === 'number' && node.maximum < 2 ** 31
  return { ...node, format: fits ? 'int32' : 'int64' }
}

/**
 * Checks every schema of the document against the rules of decision 132. `names` are the names of the schemas in the
 * document.
 */
export const finished = (
  json: unknown,
  {
    names,
    io,
    closedAnswers,
  }: {
    readonly names: ReadonlyMap<string, string>
    readonly io: 'input' | 'output'
    readonly closedAnswers: boolean
  },
): Json =>
  rewrite(json, (node) => {
    const rest = formatted(typed(nullableChoice(reference(node, names))))
    if (io === 'input') return takingNull(rest)
    return closedAnswers ? rest : open(rest)
  }) as Json

/** What belongs to the place where a schema is used, and what to the schema. */
const parted = (node: Json): { readonly place: Json; readonly schema: Json } => {
  const { place = [], schema = [] } = Object.groupBy(Object.entries(node), ([keyword]) =>
    ['description', 'default', 'example', 'examples'].includes(keyword) ? 'place' : 'schema',
  )
  return { place: Object.fromEntries(place), schema: Object.fromEntries(schema) }
}

/** The name of an entry: `OrderLines` has entries `OrderLine`. */
const entryName = (name: string): string => {
  if (name.endsWith('ies')) return `${name.slice(0, -3)}y`
  if (name.endsWith('sses')) return name.slice(0, -2)
  return /[^s]s$/.test(name) ? name.slice(0, -1) : `${name}Item`
}

/** zod leaves the id of a named schema in the schema. A property with the name `id` is a schema and not a text. */
const idOf = ({ id }: Json): string | undefined => (typeof id === 'string' ? id : undefined)

const withoutId = (node: Json): Json => {
  const { id, ...rest } = node
  return typeof id === 'string' ? rest : node
}

const hasFields = ({ properties }: Json): boolean =>
  isObject(properties) && Object.keys(properties).length > 0

/**
 * Defines each object and enumeration inside a schema, under a name of its own: its id, else a name that follows
 * from the way to it.
 */
export const named = (
  schema: Json,
  schemaName: string,
  define: (name: string, schema: Json) => Json,
): Json => {
  const field = (node: unknown, way: string): unknown => {
    if (!isObject(node)) return node
    const name = idOf(node) ?? way
    if (!hasFields(node) && !Array.isArray(node.enum)) return inner(node, name)
    const types = [node.type].flat()
    const { place, schema: own } = parted(node)
    const type = types.find((each) => each !== 'null')
    const reference = { ...define(name, inner({ ...own, type }, name)), ...place }
    return types.includes('null') ? nullable(reference) : reference
  }
  const inner = (node: Json, name: string): Json => ({
    ...withoutId(node),
    ...(isObject(node.properties) && {
      properties: Object.fromEntries(
        Object.entries(node.properties).map(([key, each]) => [key, field(each, `${name}${pascal(key)}`)]),
      ),
    }),
    ...(node.items !== undefined && { items: field(node.items, entryName(name)) }),
    ...(node.additionalProperties !== undefined && {
      additionalProperties: field(node.additionalProperties, `${name}Value`),
    }),
  })
  return inner(schema, schemaName)
}

import type { z } from 'zod'
import { positionToken } from '../../../terms/position.ts'
import { jsonSchemaOf } from '../json-schema.ts'
import type { Route } from '../route.ts'

type Json = Readonly<Record<string, unknown>>

/** A field as a parameter: its schema, its description and its example. */
const parametersOf = (
  schema: z.ZodObject | undefined,
  place: 'path' | 'query',
  examples: Readonly<Record<string, unknown>> | undefined,
): readonly Json[] => {
  if (schema === undefined) return []
  const { properties = {}, required = [] } = jsonSchemaOf(schema, 'input')
  return Object.entries(properties).map(([name, property]) => {
    const { description, ...rest } = property
    return {
      name,
      in: place,
      required: place === 'path' || required.includes(name),
      ...(description === undefined ? {} : { description }),
      schema: rest,
      ...(examples?.[name] === undefined ? {} : { example: examples[name] }),
    }
  })
}

const parameter = (name: string): Json => ({ $ref: `#/components/parameters/${name}` })

const sharedParametersOf = (route: Route): readonly Json[] => [
  ...(route.idempotencyKey === undefined ? [] : [parameter('Idempotency-Key')]),
  ...(route.customer === 'pays' || route.customer === 'limits'
    ? [parameter('X-Reseller-Customer-Id'), parameter('customer_id')]
    : []),
  ...(route.requestIdIsKey ? [parameter('X-Request-Id')] : []),
  ...(route.access !== 'public' ? [parameter('X-Farebox-Position')] : []),
]

/** Parameters of many operations, written once. */
const sharedParameters: Readonly<Record<string, Json>> = {
  'Idempotency-Key': {
    name: 'Idempotency-Key',
    in: 'header',
    description:
      'Chosen by the client, kept for ever, scoped to the account. A retry with the same key and body gives the same result and is never charged twice. Reseller keys must send it with orders.',
    schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[\\x20-\\x7e]+$' },
    example: '6f0b6f0e-order-1',
  },
  'X-Reseller-Customer-Id': {
    name: 'X-Reseller-Customer-Id',
    in: 'header',
    description:
      "The reseller's own id of the customer that it acts for, blanks around it taken off. Reseller keys only. What is read or changed is then that customer's alone: everything else reads as absent.",
    schema: { type: 'string', minLength: 1, maxLength: 128 },
    example: 'customer-42',
  },
  customer_id: {
    name: 'customer_id',
    in: 'query',
    description:
      'The same as the header X-Reseller-Customer-Id, for a link or a filter. Both may be sent when they name the same customer.',
    schema: { type: 'string', minLength: 1, maxLength: 128 },
    example: 'customer-42',
  },
  'X-Request-Id': {
    name: 'X-Request-Id',
    in: 'header',
    description: 'The idempotency key of the call: a retry replays the result and is never billed twice.',
    schema: { type: 'string', minLength: 1, maxLength: 128, pattern: '^[\\x20-\\x7e]+$' },
    example: 'scrape-1',
  },
  'X-Farebox-Position': {
    name: 'X-Farebox-Position',
    in: 'header',
    description:
      'The value of this header in the answer of a write: what is read then shows that write, on whichever process it lands. Writes of the same account through the same process always show.',
    schema: { type: 'string' },
    example: positionToken(1284),
  },
}

/** Every parameter of an operation. */
export const operationParameters = (route: Route): readonly Json[] => [
  ...parametersOf(route.params, 'path', route.examples?.params),
  ...parametersOf(route.query, 'query', route.examples?.query),
  ...sharedParametersOf(route),
]

/** Only the shared parameters that some route takes: an unused component is a lint warning. */
export const usedParameters = (routes: readonly Route[]): Readonly<Record<string, Json>> => {
  const used = new Set(routes.flatMap(sharedParametersOf).map(({ $ref }) => String($ref).split('/').at(-1)))
  return Object.fromEntries(Object.entries(sharedParameters).filter(([name]) => used.has(name)))
}

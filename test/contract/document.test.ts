import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Document } from '../support/http.ts'
import { testApp } from '../support/test-app.ts'

type Node = Readonly<Record<string, unknown>>
type Content = Readonly<Record<string, { readonly schema: Node }>>
type Response = { readonly content?: Content }
type Operation = {
  readonly operationId: string
  readonly tags: readonly string[]
  readonly parameters?: readonly Node[]
  readonly requestBody?: Response
  readonly responses: Readonly<Record<string, Response & { readonly $ref?: string }>>
}
type Whole = Document & {
  readonly info: { readonly description: string; readonly license?: { readonly url?: string } }
  readonly webhooks: Readonly<Record<string, { readonly post: Operation }>>
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Every schema within a schema, with the way to it. */
function* within(schema: unknown, way: string): Generator<readonly [way: string, schema: Node]> {
  if (!isNode(schema)) return
  yield [way, schema]
  for (const [name, field] of Object.entries((schema.properties ?? {}) as Node))
    yield* within(field, `${way}.${name}`)
  for (const keyword of ['items', 'additionalProperties', 'not'])
    yield* within(schema[keyword], `${way}/${keyword}`)
  for (const keyword of ['oneOf', 'anyOf', 'allOf'])
    for (const [at, choice] of ((schema[keyword] ?? []) as readonly Node[]).entries())
      yield* within(choice, `${way}/${keyword}/${at}`)
}

/** Every schema that is written in a part of the document outside of `components.schemas`, with the way to it. */
function* schemasOf(part: unknown, way: string): Generator<readonly [way: string, schema: Node]> {
  if (Array.isArray(part)) for (const [at, each] of part.entries()) yield* schemasOf(each, `${way}/${at}`)
  if (!isNode(part)) return
  for (const [name, each] of Object.entries(part))
    if (name === 'schema') yield* within(each, `${way}/schema`)
    else if (!['example', 'examples'].includes(name)) yield* schemasOf(each, `${way}/${name}`)
}

const typesOf = ({ type }: Node): readonly unknown[] => (type === undefined ? [] : [type].flat())

const hasFields = ({ properties }: Node): boolean => isNode(properties) && Object.keys(properties).length > 0

const isNamedOrNull = ({ oneOf }: Node): boolean => {
  const [value, none, ...more] = (oneOf ?? []) as readonly Node[]
  return value?.$ref !== undefined && none?.type === 'null' && more.length === 0
}

for (const name of ['openapi', 'openapi-core'])
  test(`/${name}.json has a form that client generators read:`, async (t) => {
    const { baseUrl } = await testApp(t)
    const document = (await (await fetch(`${baseUrl}/${name}.json`)).json()) as Whole
    const operations = Object.values(document.paths).flatMap(
      (methods) => Object.values(methods) as Operation[],
    )
    const { schemas: named, ...components } = document.components as {
      readonly schemas: Readonly<Record<string, Node>>
    }
    const all = [
      ...Object.entries(named).flatMap(([of, schema]) =>
        [...within(schema, of)].map(([way, each]) => [way, each, way === of] as const),
      ),
      ...[...schemasOf([document.paths, document.webhooks, components], '')].map(
        ([way, each]) => [way, each, false] as const,
      ),
    ]

    /** The schemas that break a rule. */
    const breaking = (
      breaks: (schema: Node, isNamed: boolean, way: string) => boolean | undefined,
    ): readonly string[] =>
      all.filter(([way, schema, isNamed]) => breaks(schema, isNamed, way)).map(([way]) => way)

    await t.test('it has the operations, and no name that zod made', () => {
      const ids = operations.map(({ operationId }) => operationId)
      for (const id of ['listScrapeBatches', 'cancelScrapeBatch', 'createOrder']) assert.ok(ids.includes(id))
      assert.equal(ids.includes('scrapeAmazonShop'), name === 'openapi')
      assert.ok(all.length > 1_000)
      assert.ok(!JSON.stringify(document).includes('__schema'))
    })

    await t.test(
      'a whole number has the format int64, or int32 if its maximum fits; a number has double',
      () => {
        const expected = ({ maximum }: Node) =>
          typeof maximum === 'number' && maximum <= 2_147_483_647 ? 'int32' : 'int64'
        assert.deepEqual(
          breaking((schema) => typesOf(schema).includes('integer') && schema.format !== expected(schema)),
          [],
        )
        assert.deepEqual(
          breaking((schema) => typesOf(schema).includes('number') && schema.format !== 'double'),
          [],
        )
      },
    )

    await t.test('a type is one type, or one type and null; null stands beside a named schema only', () => {
      assert.deepEqual(
        breaking((schema) => typesOf(schema).filter((type) => type !== 'null').length > 1),
        [],
      )
      const allowed = breaking(isNamedOrNull).map((way) => `${way}/oneOf/1`)
      assert.deepEqual(
        breaking((schema, _, way) => schema.type === 'null' && !allowed.includes(way)),
        [],
      )
    })

    await t.test('no constant is true or false', () => {
      assert.deepEqual(
        breaking((schema) => typeof schema.const === 'boolean'),
        [],
      )
    })

    await t.test('an enumeration has texts alone, a type and a name; a nullable one has no default', () => {
      const isEnum = ({ enum: values }: Node): boolean => Array.isArray(values)
      assert.deepEqual(
        breaking((schema, isNamed) => isEnum(schema) && (!isNamed || schema.type !== 'string')),
        [],
      )
      assert.deepEqual(
        breaking(
          (schema) =>
            isEnum(schema) && !(schema.enum as readonly unknown[]).every((each) => typeof each === 'string'),
        ),
        [],
      )
      assert.deepEqual(
        breaking((schema) => Array.isArray(schema.oneOf) && 'default' in schema),
        [],
      )
    })

    await t.test(
      'an object with fields has a name; there is no choice, except of a named schema or null',
      () => {
        assert.deepEqual(
          breaking((schema, isNamed) => hasFields(schema) && !isNamed),
          [],
        )
        assert.deepEqual(
          breaking((schema) => Array.isArray(schema.oneOf) && !isNamedOrNull(schema)),
          [],
        )
        assert.deepEqual(
          breaking((schema) => (schema.anyOf ?? schema.allOf) !== undefined),
          [],
        )
      },
    )

    await t.test('a list has items', () => {
      assert.deepEqual(
        breaking((schema) => typesOf(schema).includes('array') && !isNode(schema.items)),
        [],
      )
    })

    await t.test('an enumeration of answers has one name, wherever it is used', () => {
      if (name === 'openapi') return
      const byValues = Map.groupBy(
        Object.entries(named).filter(
          ([of, schema]) =>
            Array.isArray(schema.enum) && !of.endsWith('ErrorCode') && !/^(List|Get).*Format$/.test(of),
        ),
        ([, schema]) => JSON.stringify(schema.enum),
      )
      assert.deepEqual(
        [...byValues.values()].filter((each) => each.length > 1).map((each) => each.map(([of]) => of)),
        [],
      )
    })

    await t.test('no schema is named NewX beside X', () => {
      const names = Object.keys(named)
      assert.deepEqual(
        names.filter((each) => names.includes(`New${each}`)),
        [],
      )
    })

    await t.test('events and operations have different tags', () => {
      const ofOperations = new Set(operations.flatMap(({ tags }) => tags))
      const ofEvents = Object.values(document.webhooks).flatMap(({ post }) => post.tags)
      assert.ok(ofEvents.length > 0)
      assert.deepEqual(
        ofEvents.filter((tag) => ofOperations.has(tag)),
        [],
      )
    })

    await t.test(
      'the address of the license is absolute or absent, and the text names the shorter document',
      () => {
        const { license, description } = document.info
        assert.ok(license?.url === undefined || URL.canParse(license.url))
        assert.match(description, /openapi-core\.json/)
      },
    )

    await t.test(
      'bodies and answers have a name and one media type; the refusals of an operation have one schema',
      () => {
        const shared = document.components.responses as Readonly<Record<string, Response>>
        const nameOf = ($ref: unknown): string => String($ref).split('/').at(-1) ?? ''
        for (const { operationId, requestBody, responses, parameters = [] } of operations) {
          const body = requestBody?.content?.['application/json']?.schema
          if (body) assert.ok('$ref' in body, `the body of ${operationId} has no name`)
          const errors = new Set<unknown>()
          for (const [status, response] of Object.entries(responses)) {
            const { content } = response.$ref === undefined ? response : shared[nameOf(response.$ref)]!
            if (content === undefined) continue
            assert.equal(Object.keys(content).length, 1, `${operationId} ${status}`)
            const schema = content['application/json']?.schema
            if (schema) assert.ok('$ref' in schema, `the answer ${status} of ${operationId} has no name`)
            if (Number(status) >= 400) errors.add(schema?.$ref)
          }
          assert.equal(errors.size, 1, operationId)
          const error = named[nameOf([...errors][0])]
          const code = (error?.properties as Readonly<Record<string, Node>> | undefined)?.code
          assert.ok(Array.isArray(named[nameOf(code?.$ref)]?.enum), operationId)
          for (const { name: parameter, schema } of parameters)
            if (isNode(schema) && schema.type === 'integer' && 'default' in schema)
              assert.equal(typeof schema.default, 'number', `${operationId} ${parameter}`)
        }
      },
    )
  })

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testApp } from '../support/test-app.ts'

type Node = Readonly<Record<string, unknown>>
type Response = { readonly content?: Readonly<Record<string, { readonly schema: Node }>> }
type Operation = {
  readonly operationId: string
  readonly parameters?: readonly Node[]
  readonly requestBody?: Response
  readonly responses: Readonly<Record<string, Response>>
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Every schema within a part of the document, with the way to it; values of examples are no schemas. */
function* schemasIn(value: unknown, way: string): Generator<readonly [string, Node]> {
  if (Array.isArray(value)) for (const [at, each] of value.entries()) yield* schemasIn(each, `${way}/${at}`)
  if (!isNode(value)) return
  yield [way, value]
  for (const [name, each] of Object.entries(value))
    if (!['example', 'examples', 'default', 'const', 'enum'].includes(name))
      yield* schemasIn(each, `${way}/${name}`)
}

test('every operation of the document has a form that client generators read', async (t) => {
  const { document } = await testApp(t)
  assert.ok(!JSON.stringify(document).includes('__schema'))
  const operations = Object.values(document.paths).flatMap(
    (methods) => Object.values(methods) as unknown as Operation[],
  )
  const ids = operations.map(({ operationId }) => operationId)
  for (const id of ['listScrapeBatches', 'cancelScrapeBatch', 'createOrder']) assert.ok(ids.includes(id), id)

  for (const { operationId, requestBody, responses, parameters = [] } of operations) {
    const body = requestBody?.content?.['application/json']?.schema
    if (body) assert.ok('$ref' in body, `the body of ${operationId} has no name`)
    for (const [status, { content = {} }] of Object.entries(responses)) {
      const schema = content['application/json']?.schema
      if (Number(status) >= 400 && schema)
        assert.ok('$ref' in schema, `the error ${status} of ${operationId} has no name`)
    }
    for (const { name, schema } of parameters)
      if (isNode(schema) && schema.type === 'integer' && 'default' in schema)
        assert.equal(typeof schema.default, 'number', `${operationId} ${name}`)
  }

  for (const [way, node] of schemasIn([document.paths, document.components], '')) {
    if (node.type === 'array' || (Array.isArray(node.type) && node.type.includes('array')))
      assert.ok(isNode(node.items), `${way} has no items`)
    if (Array.isArray(node.enum)) assert.ok(node.type, `${way} has no type`)
    for (const choices of [node.anyOf, node.oneOf]) {
      if (!Array.isArray(choices)) continue
      const scalars = choices.filter((each) => each.type !== 'null' && each.type !== 'object' && !each.$ref)
      assert.ok(
        choices.every((each) => each.type !== 'null') || scalars.length !== 1,
        `${way} writes a nullable type as a choice`,
      )
    }
  }

  const { schemas } = document.components as unknown as { schemas: Readonly<Record<string, Node>> }
  for (const [name, { oneOf, discriminator }] of Object.entries(schemas))
    if (name.endsWith('Error') && Array.isArray(oneOf))
      assert.equal((discriminator as Node | undefined)?.propertyName, 'code', name)
})

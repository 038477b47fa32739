import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { testApp } from '../support/test-app.ts'
import type { Schema } from './arbitraries.ts'
import { operationsOf } from './generated.ts'
import { idsOf, liveOf } from './live.ts'
import { finishedBatch } from './scrape-cases.ts'

type Node = Schema & {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly properties?: Readonly<Record<string, Node>>
  readonly required?: readonly string[]
  readonly items?: Node
  readonly anyOf?: readonly Node[]
  readonly oneOf?: readonly Node[]
}

test('null for an optional field of a body equals leaving the field out, for every operation', async (t) => {
  const app = await testApp(t)
  const { client, demo, document, credit } = app
  await credit(demo.buyer.accountId, 10_000_000)
  const live = await liveOf(client, demo.buyer.key, [await finishedBatch(app)], false)
  const schemas = document.components.schemas as unknown as Readonly<Record<string, Node>>
  const resolved = (node: Node): Node => {
    if (node.$ref) return resolved(schemas[node.$ref.split('/').at(-1) ?? ''] ?? {})
    const forms = (node.anyOf ?? node.oneOf)?.filter(({ type }) => type !== 'null')
    return forms?.length === 1 ? resolved(forms[0]!) : node
  }
  let nulls = 0
  const withNulls = (value: unknown, schema: Node): unknown => {
    if (typeof value !== 'object' || value === null) return value
    const { properties = {}, required = [], items } = resolved(schema)
    if (Array.isArray(value)) return items ? value.map((item) => withNulls(item, items)) : value
    const given = Object.entries(value).map(([name, field]) => [
      name,
      withNulls(field, properties[name] ?? {}),
    ])
    const unset = Object.keys(properties).filter((name) => !(name in value) && !required.includes(name))
    nulls += unset.length
    return Object.fromEntries([...given, ...unset.map((name) => [name, null])])
  }
  const optionalOf = (schema: Node): readonly (readonly [string, Node])[] => {
    const { properties = {}, required = [] } = resolved(schema)
    return Object.entries(properties).filter(([name]) => !required.includes(name))
  }
  const takesNull = (node: Node): boolean =>
    node.$ref !== undefined
      ? takesNull(schemas[node.$ref.split('/').at(-1) ?? ''] ?? {})
      : node.type === undefined
        ? (node.anyOf ?? node.oneOf ?? []).length === 0 || (node.anyOf ?? node.oneOf)!.some(takesNull)
        : [node.type].flat().includes('null')

  for (const operation of operationsOf(document)) {
    const { operationId, method, path, body } = operation
    if (body === null || path.startsWith('/v1/scrape/')) continue
    for (const [name, property] of optionalOf(body as Node))
      assert.ok(takesNull(property), `${operationId}: the document says that ${name} takes null`)
    const { requestBody } = document.paths[path]![method.toLowerCase()] as unknown as {
      requestBody: { content: Readonly<Record<string, { example?: unknown; examples?: object }>> }
    }
    const { example, examples } = requestBody.content['application/json']!
    const sent = example ?? (Object.values(examples ?? {})[0] as { value: unknown }).value
    const [id = ''] = idsOf(live, operation)
    const ids = id.split('|')
    const url = path.replaceAll(/\{\w+\}/g, () => encodeURIComponent(ids.shift() ?? ''))
    const key = randomUUID()
    const send = async (what: unknown) => {
      const headers = { 'idempotency-key': key, 'x-request-id': key }
      const raw = JSON.stringify(what)
      const answer = await client.call(method, url, { headers, key: demo.buyer.key, raw })
      return answer.status < 300 ? 'done' : `${answer.status} ${answer.body?.code}`
    }
    const left = await send(sent)
    assert.equal(await send(withNulls(sent, body as Node)), left, operationId)
  }
  assert.ok(nulls > 10, `${nulls} fields were null`)
})

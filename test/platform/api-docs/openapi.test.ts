import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import { validate as readmeValidate } from '@readme/openapi-parser'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { Registry } from 'prom-client'
import { z } from 'zod'
import { openApiDocument } from '../../../src/platform/api-docs/openapi-document.ts'
import { declaredCodes } from '../../../src/platform/api-docs/openapi-errors.ts'
import { documentationRoutes } from '../../../src/platform/api-docs/routes.ts'
import { healthRoutes } from '../../../src/platform/http/health.ts'
import { route } from '../../../src/platform/http/route.ts'
import { declaredOf, httpClientOf } from '../../support/http.ts'
import { sampleRoutes, sampleServer } from '../http/sample.ts'

type Operation = Record<string, unknown> & {
  responses: Record<string, { content?: Record<string, unknown> }>
}

const document = openApiDocument(sampleRoutes)
const operations = Object.values(document.paths).flatMap((path) =>
  Object.values(path),
) as unknown as Operation[]

/** Runs the linter without letting it ask the network for anything. */
const redocly = async (
  file: string,
): Promise<{ problems: { ruleId: string; severity: string; message: string }[] }> => {
  const cli = join(import.meta.dirname, '../../../node_modules/.bin/redocly')
  const offline = { REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
  const run = promisify(execFile)(cli, ['lint', file, '--extends=recommended', '--format=json'], {
    env: { ...process.env, ...offline },
    cwd: tmpdir(),
  })
  const { stdout } = await run.catch((error: { stdout: string }) => error)
  return JSON.parse(stdout)
}

describe('The interface description', () => {
  test('is valid OpenAPI 3.1.0 for one independent validator', async () => {
    const result = await readmeValidate(structuredClone(document) as never)
    assert.deepEqual(result.valid || result, true)
  })

  test('is valid OpenAPI 3.1.0 for another one', async () => {
    const result = await new Validator().validate(structuredClone(document))
    assert.deepEqual(result.errors ?? [], [])
    assert.equal(result.valid, true)
  })

  test('passes the recommended rules of redocly', async (t) => {
    const directory = await mkdtemp(join(tmpdir(), 'farebox-lint-'))
    t.after(() => rm(directory, { recursive: true }))
    const file = join(directory, 'openapi.json')
    await writeFile(file, JSON.stringify(document))
    const { problems } = await redocly(file)
    assert.deepEqual(
      problems.map(({ ruleId, message }) => `${ruleId}: ${message}`),
      [],
    )
  })

  test('states version 3.1.0 of the format and 1.0.0 of the interface', () => {
    assert.equal(document.openapi, '3.1.0')
    assert.equal((document.info as { version: string }).version, '1.0.0')
  })

  test('has a unique operationId, an example and a list of errors on every operation', () => {
    const ids = operations.map(({ operationId }) => operationId)
    assert.equal(new Set(ids).size, sampleRoutes.length)
    for (const { operationId, responses } of operations) {
      const declared = Object.entries(responses)
      assert.ok(
        declared.some(([status]) => Number(status) >= 400),
        `${operationId} lists errors`,
      )
      const success = declared.filter(
        ([status, { content }]) => Number(status) < 300 && content !== undefined,
      )
      for (const [status, { content }] of success)
        for (const media of Object.values(content ?? {}))
          assert.ok('example' in (media as object), `${operationId} ${status} has an example`)
    }
  })

  test('lists every code of every operation, with an example of each', () => {
    const declared = declaredOf(document as never)
    for (const one of sampleRoutes)
      for (const code of declaredCodes(one))
        assert.ok(
          [...declared].some((seen) => seen.startsWith(`${one.operationId} `) && seen.endsWith(` ${code}`)),
          `${one.operationId} ${code}`,
        )
  })

  test('declares 400 on every operation of /api/v1 that needs a key, as the spec does', () => {
    for (const [path, item] of Object.entries(document.paths))
      for (const operation of Object.values(item) as unknown as Operation[])
        if (path.startsWith('/api/v1'))
          assert.ok('400' in operation.responses, `${path} ${operation.operationId}`)
  })

  test('gives only examples that fit their schemas', () => {
    const ajv = new Ajv2020({ strict: false })
    addFormats.default(ajv)
    ajv.addSchema({ $id: 'document', components: document.components })
    const check = (
      media: { schema?: unknown; example?: unknown; examples?: Record<string, { value: unknown }> },
      where: string,
    ) => {
      const schema = JSON.parse(
        JSON.stringify(media.schema).replaceAll('"#/components/', '"document#/components/'),
      )
      const examples = [media.example, ...Object.values(media.examples ?? {}).map(({ value }) => value)]
      for (const example of examples.filter((value) => value !== undefined))
        assert.ok(ajv.validate(schema, example), `${where}: ${ajv.errorsText()} ${JSON.stringify(example)}`)
    }
    const visit = (node: unknown, where: string): void => {
      if (typeof node !== 'object' || node === null) return
      if ('schema' in node && ('example' in node || 'examples' in node)) check(node as never, where)
      for (const [key, value] of Object.entries(node)) visit(value, `${where}/${key}`)
    }
    visit(document.paths, '')
    visit(document.components, '')
  })

  test('forbids unknown fields in requests and allows new ones in answers', () => {
    for (const [name, schema] of Object.entries(document.components.schemas)) {
      const isClosed = schema.properties !== undefined && schema.additionalProperties === false
      assert.equal(isClosed, name.includes('Request') && schema.type === 'object', name)
    }
    assert.ok('CreateOrderRequest' in document.components.schemas)
  })

  test('declares paging as whole numbers, though they are read from text', () => {
    const list = operations.find(({ operationId }) => operationId === 'listOrders')
    const parameters = list?.parameters as { name: string }[] | undefined
    const limit = parameters?.find(({ name }) => name === 'limit')
    assert.deepEqual(limit, {
      name: 'limit',
      in: 'query',
      required: false,
      description: 'How many entries, at least 1; more than 100 is read as 100.',
      schema: { type: 'integer', minimum: 1, default: 50, format: 'int64' },
    })
  })

  test('uses only forms that client generators read', () => {
    const kinds = route({
      method: 'POST',
      path: '/kinds',
      operationId: 'sendKinds',
      summary: 'x',
      description: 'x',
      tag: 'Service',
      access: 'public',
      writes: false,
      query: z.object({
        limit: z
          .string()
          .meta({ override: { type: 'integer' } })
          .default('5'),
      }),
      body: z.strictObject({ any: z.json(), more: z.record(z.string(), z.json()).optional() }),
      responses: {
        200: {
          description: 'x',
          example: {},
          body: z.object({
            at: z.iso.datetime().nullable(),
            kind: z.enum(['a', 'b']).nullable(),
            inner: z.object({ a: z.string() }).nullable(),
            list: z.array(z.string()).nullable(),
            loose: z.unknown().meta({ override: { type: ['array', 'null'] } }),
            word: z.unknown().meta({ override: { enum: ['x', 'y'] } }),
            days: z.int().min(0).max(90),
            share: z.number().nullable(),
          }),
        },
      },
      errors: ['price_changed', 'out_of_stock'],
      handler: async () => ({ status: 200 as const, body: {} as never }),
    })
    const made = openApiDocument([kinds])
    const operation = made.paths['/kinds']!.post as unknown as Operation & {
      parameters: { schema: object }[]
      requestBody: { content: Record<string, { schema: object }> }
    }
    assert.deepEqual(operation.parameters[0]?.schema, { default: 5, type: 'integer', format: 'int64' })
    assert.deepEqual(operation.requestBody.content['application/json']?.schema, {
      $ref: '#/components/schemas/SendKindsRequest',
    })
    const refOf = (status: string) =>
      (operation.responses[status]?.content?.['application/json'] as { schema: object } | undefined)?.schema
    const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` })
    const nullable = (name: string) => ({ oneOf: [ref(name), { type: 'null' }] })
    const { schemas } = made.components
    assert.deepEqual(refOf('200'), ref('SendKindsAnswer'))
    assert.deepEqual(schemas.SendKindsAnswer?.properties, {
      at: { type: ['string', 'null'], format: 'date-time' },
      kind: nullable('SendKindsAnswerKind'),
      inner: nullable('SendKindsAnswerInner'),
      list: { type: ['array', 'null'], items: { type: 'string' } },
      loose: { type: ['array', 'null'], items: {} },
      word: ref('SendKindsAnswerWord'),
      days: { type: 'integer', minimum: 0, maximum: 90, format: 'int32' },
      share: { type: ['number', 'null'], format: 'double' },
    })
    assert.deepEqual(schemas.SendKindsAnswerKind, { type: 'string', enum: ['a', 'b'] })
    assert.deepEqual(schemas.SendKindsAnswerInner, {
      type: 'object',
      properties: { a: { type: 'string' } },
      required: ['a'],
    })
    assert.deepEqual(schemas.SendKindsRequest?.properties, {
      any: {},
      more: { type: ['object', 'null'], additionalProperties: {} },
    })
    assert.deepEqual(refOf('409'), ref('SendKindsError'))
    assert.deepEqual(refOf('429'), ref('SendKindsError'))
    const { properties, required } = schemas.SendKindsError as {
      properties: Readonly<Record<string, { $ref?: string; description?: string }>>
      required: readonly string[]
    }
    assert.deepEqual(required, ['error', 'code', 'requestId'])
    assert.equal(properties.code?.$ref, ref('SendKindsErrorCode').$ref)
    assert.match(properties.amountCents?.description ?? '', /With `price_changed`\.$/)
    assert.deepEqual(schemas.SendKindsErrorCode?.enum, declaredCodes(kinds))
    assert.ok(!JSON.stringify(made).includes('__schema'))
  })

  test('refuses two different schemas with one name', () => {
    const named = (path: string, field: string) =>
      route({
        method: 'GET',
        path,
        operationId: path,
        summary: 'x',
        description: 'x',
        tag: 'Service',
        access: 'public',
        writes: false,
        responses: {
          200: { description: 'x', body: z.object({ [field]: z.string() }).meta({ id: 'Twice' }) },
        },
        errors: [],
        handler: async () => ({ status: 200 as const, body: {} }),
      })
    const { schemas } = openApiDocument([named('/a', 'x'), named('/b', 'x')]).components
    assert.deepEqual(
      Object.keys(schemas).filter((name) => !name.includes('Error')),
      ['Twice'],
    )
    assert.throws(() => openApiDocument([named('/a', 'x'), named('/b', 'y'), named('/c', 'z')]), /Twice/)
  })

  test('is served with the documentation, and omits internal pages', async (t) => {
    const own = [...healthRoutes([], { registry: new Registry(), mayRead: () => true }), ...sampleRoutes]
    const { baseUrl } = await sampleServer(t, { routes: [...own, ...documentationRoutes(own)] })
    const served = await (await fetch(`${baseUrl}/openapi.json`)).json()
    assert.deepEqual(served, JSON.parse(JSON.stringify(document)))
    const core = await (await fetch(`${baseUrl}/openapi-core.json`)).json()
    assert.deepEqual(core, served)
    const client = await httpClientOf(baseUrl, 'buyer-key')
    assert.equal((await client.get('/api/v1/me')).status, 200)
    assert.ok(client.seen.has('getMe 200'))
  })
})

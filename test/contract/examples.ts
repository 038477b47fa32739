import { randomUUID } from 'node:crypto'
import type { TestContext } from 'node:test'
import type { Called, HttpClient } from '../support/http.ts'
import { secondClient, type TestApp } from '../support/test-app.ts'
import { type DeclaredOperation, operationsOf } from './generated.ts'
import { idsOf, liveOf } from './live.ts'
import { finishedBatch } from './scrape-cases.ts'

type Parts = {
  /** The values of the path's parameters. */
  readonly ids: readonly string[]
  readonly query: Readonly<Record<string, unknown>>
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
}

/** An operation with the examples of its request in the document. */
export type ExampleRequest = {
  readonly operation: DeclaredOperation
  /** Every example of a parameter and of the body. */
  readonly examples: Parts
  /** The same with ids of the caller in the path, and without a customer. */
  readonly base: Parts
  send(parts: Parts): Promise<Called>
}

type Parameter = DeclaredOperation['parameters'][number] & { readonly example?: unknown }

const keyOf = ({ path }: DeclaredOperation, { demo, financeToken }: TestApp<'financeToken'>): string => {
  if (path.startsWith('/finance/')) return financeToken
  if (path.startsWith('/v1/scrape') || path === '/api/v1/scrapes') return demo.scraper.key
  return demo.reseller.key
}

/** Nothing is dialled where no judge answers. */
const withoutJudge = (t: TestContext, app: TestApp<'financeToken'>): Promise<HttpClient> =>
  secondClient(t, app, { FAREBOX_FREELIST_JUDGE_HOST: '127.0.0.1', FAREBOX_FREELIST_JUDGE_PORTS: '9/11' })

const examplesOf = (parameters: readonly Parameter[], place: Parameter['in']): Record<string, unknown> =>
  Object.fromEntries(
    parameters
      .filter((parameter) => parameter.in === place && parameter.example !== undefined)
      .map(({ name, example }) => [name, example]),
  )

const pathOf = ({ path }: DeclaredOperation, { ids, query }: Parts): string => {
  const left = [...ids]
  const texts = Object.entries(query).map(([name, value]) => [name, String(value)])
  const search = new URLSearchParams(Object.fromEntries(texts)).toString()
  return `${path.replaceAll(/\{\w+\}/g, () => encodeURIComponent(left.shift() ?? ''))}${search && `?${search}`}`
}

/**
 * Every operation of the document with its examples, for a reseller that has bought something of each product and may
 * set prices.
 */
export const exampleRequests = async (
  t: TestContext,
  app: TestApp<'financeToken'>,
): Promise<readonly ExampleRequest[]> => {
  const { client, demo, document, credit, payCustomer, run } = app
  const { accountId, key } = demo.reseller
  await credit(accountId, 1_000_000_000)
  await run('reseller', 'set', '--account', accountId, '--price-limits', '0.01-100')
  await payCustomer(accountId, 'customer-42', 10_000_000)
  const live = await liveOf(client, key, [await finishedBatch(app)], true)
  // A parameter that one product reads is checked for all of them.
  const small = live.offers.filter(({ quantity }) => quantity <= 5)
  const productIds = [...new Set(small.map(({ product_id }) => product_id))]
  const checking = await withoutJudge(t, app)

  return operationsOf(document).flatMap((operation) => {
    const { method, path, body } = operation
    const parameters = operation.parameters as readonly Parameter[]
    const declared = document.paths[path]?.[method.toLowerCase()] as {
      requestBody?: { content: Readonly<Record<string, { example?: unknown }>> }
    }
    const examples = {
      ids: Object.values(examplesOf(parameters, 'path')).map(String),
      query: examplesOf(parameters, 'query'),
      headers: examplesOf(parameters, 'header') as Record<string, string>,
      body: body === null ? undefined : declared.requestBody?.content['application/json']?.example,
    }
    const { customer_id: _, ...query } = examples.query
    const isQuote = path === '/api/v1/products/{id}/price'
    const paths = path.includes('{operation}')
      ? [examples.ids]
      : (isQuote ? productIds : idsOf(live, operation).slice(0, 1)).map((id) => id.split('|'))
    return (path.includes('{') ? paths : [[]]).map((ids) => ({
      operation,
      examples,
      base: {
        ...examples,
        ids,
        query,
        headers: path.endsWith('/movements') ? { 'X-Reseller-Customer-Id': 'customer-42' } : {},
      },
      send: (parts) =>
        (path === '/api/proxy-check' ? checking : client).call(method, pathOf(operation, parts), {
          key: keyOf(operation, app),
          headers: { 'Idempotency-Key': randomUUID(), ...parts.headers },
          ...(parts.body !== undefined && { json: parts.body }),
        }),
    }))
  })
}

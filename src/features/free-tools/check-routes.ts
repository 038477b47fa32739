import { Readable } from 'node:stream'
import { z } from 'zod'
import { protocols } from '../../domain/free-list/endpoint.ts'
import { addressSubject } from '../../kernel/ip-address.ts'
import { errorBody } from '../../platform/http/answer.ts'
import { ApiError } from '../../platform/http/errors.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import { integerQuery, wordQuery } from '../../platform/http/query.ts'
import { type Route, route } from '../../platform/http/route.ts'
import {
  type CheckOrder,
  type CheckProxies,
  defaultTimeoutMs,
  type Finding,
  maxProxies,
  maxProxyText,
  proxyForms,
  timeoutBounds,
} from './check-proxies.ts'
import { CheckSummary, ProxyCheckResult, resultExample, summaryOf } from './check-result.ts'

const proxyField = z
  .string()
  .min(1)
  .max(maxProxyText)
  .meta({ description: `The proxy as ${proxyForms}.` })

const timeoutText = `The time limit in milliseconds for the complete check of a proxy. Default: ${defaultTimeoutMs}.`

const checkQuery = z.object({
  proxy: proxyField,
  protocol: wordQuery(
    protocols,
    'The only protocol to check. Left out: all four protocols.',
    'FreeProxyProtocol',
  ).optional(),
  timeout_ms: integerQuery({ ...timeoutBounds, description: timeoutText }).optional(),
})

const checkBody = z.strictObject({
  proxies: z.array(proxyField).min(1).max(maxProxies),
  protocols: z.array(namedEnum('FreeProxyProtocol', protocols)).min(1).max(protocols.length).optional().meta({
    description:
      "The protocols to check. Left out: the protocol of the proxy's scheme, or all four protocols without a scheme.",
  }),
  timeout_ms: z
    .int()
    .min(timeoutBounds.min)
    .max(timeoutBounds.max)
    .optional()
    .meta({ description: timeoutText }),
})

const CheckedProxies = z
  .object({ summary: CheckSummary, results: z.array(ProxyCheckResult) })
  .meta({ id: 'FreeProxyChecks' })

const summaryExample = summaryOf([resultExample])

const description =
  'Sends requests through the proxy to the test endpoint (judge) of this service and returns the result: the working protocols, the anonymity and the exit address. The test endpoint cannot be chosen or forged. Private and reserved addresses and the addresses of this service are rejected without a connection.'

const inOrder = (findings: readonly Finding[]) =>
  findings.toSorted((a, b) => a.index - b.index).map(({ result }) => result)

const event = (name: string, data: object): string => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`

/**
 * Server-sent events: a `result` for each finished proxy, then the `summary`. On failure an `error` replaces it, in the
 * form of every refusal, because the status was already sent.
 */
async function* asEvents(
  findings: AsyncGenerator<Finding, void>,
  requestId: string,
): AsyncGenerator<string, void> {
  const collected: Finding[] = []
  try {
    for await (const finding of findings) {
      collected.push(finding)
      yield event('result', { index: finding.index, ...finding.result })
    }
    yield event('summary', summaryOf(inOrder(collected)))
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    yield event('error', JSON.parse(errorBody(error, requestId)))
  }
}

const wantsEvents = (accept: string | undefined): boolean => /\btext\/event-stream\b/i.test(accept ?? '')

/** `GET` and `POST /api/proxy-check`: whether proxies work. Public. */
export const freeProxyCheckRoutes = ({
  checkProxies,
}: {
  readonly checkProxies: CheckProxies
}): readonly Route[] => {
  const collectFindings = async (order: CheckOrder): Promise<readonly Finding[]> => {
    const findings: Finding[] = []
    for await (const finding of await checkProxies(order)) findings.push(finding)
    return findings
  }
  return [
    route({
      method: 'GET',
      path: '/api/proxy-check',
      operationId: 'checkFreeProxy',
      summary: 'Check a proxy',
      description: `${description} No key is required.`,
      tag: 'Free tools',
      access: 'public',
      writes: false,
      cors: true,
      query: checkQuery,
      examples: { query: { proxy: resultExample.proxy } },
      responses: {
        200: { description: 'The result of the check.', body: ProxyCheckResult, example: resultExample },
      },
      errors: [],
      handler: async ({ query: { proxy, protocol, timeout_ms }, address, clientGone }) => {
        const [finding] = await collectFindings({
          proxies: [proxy],
          ...(protocol === undefined ? {} : { protocols: [protocol] }),
          timeoutMs: timeout_ms,
          caller: addressSubject(address),
          signal: clientGone(),
        })
        return { status: 200, body: finding!.result }
      },
    }),
    route({
      method: 'POST',
      path: '/api/proxy-check',
      operationId: 'checkFreeProxies',
      summary: `Check up to ${maxProxies} proxies`,
      description: `${description} With \`Accept: text/event-stream\`, each result is sent when it is available, as an event \`result\` with the index of its proxy in \`index\`. The last event is \`summary\`. Otherwise one answer has all results. The checks stop when the client disconnects. No key is required.`,
      tag: 'Free tools',
      access: 'public',
      writes: false,
      cors: true,
      body: checkBody,
      codes: {
        body: {
          proxies: { value: 'invalid_parameter' },
          protocols: { value: 'invalid_parameter' },
          timeout_ms: { value: 'invalid_parameter' },
        },
      },
      examples: { body: { proxies: [resultExample.proxy] } },
      responses: {
        200: {
          description: 'The result for each proxy, in the order of the request.',
          body: CheckedProxies,
          example: { summary: summaryExample, results: [resultExample] },
          text: {
            mediaType: 'text/event-stream',
            example: `event: summary\ndata: ${JSON.stringify(summaryExample)}\n\n`,
          },
        },
      },
      errors: ['invalid_parameter'],
      handler: async ({
        body: { proxies, protocols: requestedProtocols, timeout_ms },
        address,
        clientGone,
        headers,
        requestId,
      }) => {
        const order = {
          proxies,
          protocols: requestedProtocols,
          timeoutMs: timeout_ms,
          caller: addressSubject(address),
          signal: clientGone(),
        }
        if (wantsEvents(headers.accept))
          return {
            status: 200,
            text: Readable.from(asEvents(await checkProxies(order), requestId)),
            // Without this header, nginx buffers the events until the end.
            headers: { 'x-accel-buffering': 'no' },
          }
        const results = inOrder(await collectFindings(order))
        return { status: 200, body: { summary: summaryOf(results), results } }
      },
    }),
  ]
}

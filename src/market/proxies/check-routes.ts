import { z } from 'zod'
import { type Route, route } from '../../platform/http/route.ts'
import type { ProxyChecks } from './checks.ts'
import { proxyExample } from './record.ts'

const CheckRecord = z
  .object({
    success: z.boolean(),
    exitIp: z.string().nullable().meta({ description: 'The address that the target saw; null: none.' }),
    elapsedMs: z.int(),
    checkedAt: z.string().meta({ format: 'date-time' }),
    message: z.string(),
  })
  .meta({ id: 'ProxyCheck' })

const checkExample = {
  success: true,
  exitIp: proxyExample.ip,
  elapsedMs: 84,
  checkedAt: '2026-11-21T02:31:00.000Z',
  message: 'The address carries traffic.',
}

/** Whether a rented address carries traffic. */
export const proxyCheckRoutes = ({ checks }: { readonly checks: ProxyChecks }): readonly Route[] => [
  route({
    method: 'GET',
    path: '/api/v1/proxies/{id}/check',
    operationId: 'checkProxy',
    summary: 'Check a rented address',
    description:
      'Sends one request through the address, with its own credentials, to a target of the service, and says what came of it within ten seconds. `success` is true when the request went out from the address, or, of a mobile line, from any. Five checks a minute.',
    tag: 'Proxies',
    access: 'buy',
    writes: false,
    customer: 'limits',
    params: z.object({ id: z.string() }),
    examples: { params: { id: proxyExample.proxyId } },
    limit: { per: 'account', take: (subject) => checks.take(subject) },
    responses: { 200: { description: 'What came of it.', body: CheckRecord, example: checkExample } },
    errors: ['not_found', 'rental_ended', 'check_not_available'],
    handler: async ({ scope, params: { id }, after }) => ({
      status: 200,
      body: await checks.check(scope, id, after),
    }),
  }),
]

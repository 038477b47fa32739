import { z } from 'zod'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import type { CrashHooks } from '../../kernel/crash.ts'
import { refuse, refuseUntil } from '../../platform/http/errors.ts'
import { createRateLimiter } from '../../platform/http/rate-limit.ts'
import { type Route, route } from '../../platform/http/route.ts'
import type { Inbox } from './inbox.ts'
import type { Gateways } from './port.ts'

/** Where the callbacks of a gateway are taken. */
export const callbackPath = (gatewayId: string): string => `/callbacks/${gatewayId}`

/**
 * Anybody can send here, and customers must not feel it: callbacks have places and limits of their own, above what a
 * provider sends from one address. One that is turned away is sent again by its provider, and looked for by the poller.
 */
const callbacksAtOnce = { total: 256, perAddress: 64 }
const callbackRate = { burst: 500, perSecond: 50 }
/**
 * Of one reseller's gateway, from all addresses: whoever has its secret can sign any number, each of which is kept for a month
 * and asks its server again. An invoice has about four.
 */
const resellerRate = { burst: 500, perSecond: 10 }

/**
 * The providers' callbacks. The signature is checked over the raw bytes, where to look is stored, and only then comes
 * the answer: what it means is found out afterwards. An event that was stored before is answered alike.
 */
export const callbackRoutes = (deps: {
  readonly gateways: Gateways
  readonly inbox: Inbox
  readonly clock: Clock
  readonly hooks: CrashHooks
  /** Told that something was stored. */
  readonly stored: () => void
  readonly monotonicMs: MonotonicClock
}): readonly Route[] => {
  const limiter = createRateLimiter(callbackRate, deps.monotonicMs)
  const byReseller = createRateLimiter(resellerRate, deps.monotonicMs)
  return [
    route({
      method: 'POST',
      path: '/callbacks/{gateway}',
      operationId: 'takeCallback',
      summary: 'Take a payment callback',
      description: 'For payment providers: signed with the secret that the gateway was set up with.',
      tag: 'Service',
      access: 'public',
      writes: false,
      hidden: true,
      atOnce: callbacksAtOnce,
      limit: { per: 'address', take: (address) => limiter.take(address) },
      rawBody: true,
      params: z.object({ gateway: z.string().max(64) }),
      responses: { 200: { description: 'Stored.', text: { mediaType: 'text/plain', example: 'ok' } } },
      errors: ['unauthorized', 'not_found'],
      handler: async ({ params, raw, headers, log, address }) => {
        const live = await deps.gateways.byId(params.gateway)
        if (!live) throw refuse('not_found', 'no gateway has this address')
        const verdict = live.gateway.verify(raw, headers, deps.clock())
        if (!verdict.ok) {
          const { gatewayId, provider } = live
          log().warn({ gatewayId, provider, why: verdict.why, address }, 'a callback was refused')
          throw refuse('unauthorized', 'the signature does not fit the body, or is too old')
        }
        // Only what is signed counts: nobody else can use a reseller's share up.
        const waitS = live.owner === null ? 0 : byReseller.take(live.gatewayId)
        if (waitS > 0) throw refuseUntil('rate_limited', 'too many callbacks of this gateway', waitS)
        const { eventId, reference } = verdict.callback
        if (reference !== null && (await deps.inbox.store(live.gatewayId, { eventId, reference })))
          deps.stored()
        deps.hooks.at('callback-stored')
        return { status: 200, text: 'ok' }
      },
    }),
  ]
}

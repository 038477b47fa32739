import type { BufferedSocket } from '../accept/buffered-socket.ts'
import type { Client } from '../accept/client-connection.ts'
import type { GatewayContext } from '../accept/gateway-context.ts'
import type { Admission, Denied, Exit, Route } from '../gateway-ports.ts'
import { gatewayUnavailable, sessionFailed } from '../refusals.ts'
import type { Target } from '../targets/targets.ts'
import type { Dialled } from './dial-result.ts'

/** A connection to the target, and the route facts for the client. */
export type OpenedRoute = {
  readonly denied: false
  readonly wire: BufferedSocket
  readonly fallback: boolean
  readonly stickyMinutesLeft: number | null
}

const dedicatedRoute = (exit: Exit): Route => ({
  denied: false,
  exit,
  fallback: false,
  stickyMinutesLeft: null,
  done: () => undefined,
  close: () => undefined,
})

/** The exit of an admission: the dedicated one, or one of the pool. */
export const routeOf = async (
  { exits, logger }: Pick<GatewayContext, 'exits' | 'logger'>,
  { dedicated, holder, line, family }: Admission,
  udp: boolean,
): Promise<Route | Denied> => {
  if (dedicated !== null) return dedicatedRoute(dedicated)
  try {
    return await exits.route({ holder, line, udp, family: family ?? null })
  } catch (err) {
    logger.error({ err }, 'choosing an exit failed')
    return gatewayUnavailable()
  }
}

/** The default session name that fixes the address within a prefix; null: a random address each time. */
export const sessionOf = ({ holder, line }: Admission): string | null =>
  line.session === null ? null : `${holder} ${line.session.id}`

const outcomeOf = (dialled: Dialled): 'connected' | 'exit_failed' | 'target_failed' => {
  if (!dialled.denied) return 'connected'
  return dialled.fault === 'exit' ? 'exit_failed' : 'target_failed'
}

/**
 * Connects to a target through an exit of the admission. If an exit fails, the next one is tried. A session has one
 * exit, which is tried again. Never rejects.
 * @returns 464, 465, 502, 503, 504 or 568 if there is no connection
 */
export const openRoute = async (
  context: GatewayContext,
  client: Pick<Client, 'disconnected'>,
  admission: Admission,
  target: Target,
): Promise<OpenedRoute | Denied> => {
  const { rules, limits, dial, clock, metrics } = context
  const refused = rules.refused(target)
  if (refused) return refused
  const { dedicated } = admission
  const session = sessionOf(admission)
  const deadlineMs = clock() + limits.dialMs
  let why: Denied = gatewayUnavailable()
  for (let tries = dedicated === null ? limits.exitTries : 1; tries > 0; tries--) {
    const route = await routeOf(context, admission, false)
    if (route.denied) return route
    const startedMs = clock()
    const timeoutMs = deadlineMs - startedMs
    if (client.disconnected.aborted || timeoutMs <= 0) {
      route.done('unused', 0)
      route.close()
      return why
    }
    const dialled = await dial({
      exit: route.exit,
      target,
      session: route.sessionName ?? session,
      timeoutMs,
      signal: client.disconnected,
    })
    const ms = clock() - startedMs
    const isExitFault = dialled.denied && dialled.fault === 'exit' && !client.disconnected.aborted
    // A forbidden target is no measure of the exit.
    const isUnused = dialled.denied && dialled.why.status === 464
    // The route is closed first, because the next calls may throw.
    if (dialled.denied || dialled.wire.socket.closed) route.close()
    else dialled.wire.socket.once('close', route.close)
    try {
      route.done(isExitFault ? 'failed' : isUnused ? 'unused' : 'connected', ms)
      metrics.dialled(route.exit.via.kind, outcomeOf(dialled), ms)
    } catch (error) {
      if (!dialled.denied) dialled.wire.socket.destroy()
      throw error
    }
    if (!dialled.denied) {
      const { fallback, stickyMinutesLeft } = route
      return { denied: false, wire: dialled.wire, fallback, stickyMinutesLeft }
    }
    why = dialled.why
    if (!isExitFault) return why
  }
  return session === null || dedicated !== null ? why : sessionFailed()
}

/** Response header lines about the route, each with its line end. */
export const formatRouteHeaders = ({ fallback, stickyMinutesLeft }: OpenedRoute): string =>
  (fallback ? 'X-Proxy-Fallback: country\r\n' : '') +
  (stickyMinutesLeft === null ? '' : `X-Proxy-Session-Minutes: ${stickyMinutesLeft}\r\n`)

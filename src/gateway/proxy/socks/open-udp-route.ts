import type { Client } from '../client.ts'
import type { Context } from '../context.ts'
import { routeOf, sessionOf } from '../open-route.ts'
import type { Admission, Denied, Route } from '../ports.ts'
import { refuse, sessionFailed } from '../refusals.ts'
import { openUdpWay } from './open-udp-way.ts'
import type { Arrived, UdpWay } from './udp-way.ts'

/** How long an exit may take to say where its relay is. */
const exitMs = 5_000

const noRelay = (): Denied => refuse(502, 'exit_failed', 'The exit does not relay UDP.')

/**
 * A way for datagrams through an exit of the admission. Where an exit itself fails, the next one is tried; a session has only one, which is
 * tried again. Never rejects. @returns the route too, to be closed with the way
 */
export const openUdpRoute = async (
  context: Context,
  client: Pick<Client, 'gone'>,
  admission: Admission,
  arrived: Arrived,
): Promise<{ readonly denied: false; readonly route: Route; readonly way: UdpWay } | Denied> => {
  const { limits, clock } = context
  const { dedicated } = admission
  const deadlineMs = clock() + limits.dialMs
  const session = sessionOf(admission)
  for (let tries = dedicated === null ? limits.exitTries : 1; tries > 0; tries--) {
    const route = await routeOf(context, admission, true)
    if (route.denied) return route
    const startedMs = clock()
    const timeoutMs = Math.min(exitMs, deadlineMs - startedMs)
    if (client.gone.aborted || timeoutMs <= 0) {
      route.done('unused', 0)
      route.close()
      return noRelay()
    }
    try {
      const way = await openUdpWay(context, {
        exit: route.exit,
        session: route.sessionName ?? session,
        timeoutMs,
        signal: client.gone,
        arrived,
      })
      route.done('connected', clock() - startedMs)
      return { denied: false, route, way }
    } catch {
      route.done(client.gone.aborted ? 'unused' : 'failed', clock() - startedMs)
      route.close()
    }
  }
  return session === null || dedicated !== null ? noRelay() : sessionFailed()
}

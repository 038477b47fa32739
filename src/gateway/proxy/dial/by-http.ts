import { blocked } from '../refusals.ts'
import type { Target } from '../targets/host.ts'
import { hostText } from '../targets/host.ts'
import type { Wire } from '../wire.ts'
import { askOver } from './asking.ts'
import { byExit, byTarget, type Dialled, targetTimeout, targetUnreachable } from './dialled.ts'
import type { Endpoint } from './endpoint.ts'

const maxHead = 16_384

const credentials = ({ username, password }: Endpoint): string =>
  username === null
    ? ''
    : `Proxy-Authorization: Basic ${Buffer.from(`${username}:${password ?? ''}`).toString('base64')}\r\n`

/** What another proxy's answer to CONNECT means. */
const refusal = (status: number): Dialled => {
  if (status === 407 || status === 401) return byExit('The exit did not accept its own credentials.')
  if (status === 403 || status === 464) return byTarget(blocked('The exit does not let this target through.'))
  if (status === 504 || status === 408) return byTarget(targetTimeout())
  return byTarget(targetUnreachable())
}

/** A tunnel through an HTTP proxy; the proxy resolves names. @throws what `askOver` throws */
export const tunnelByHttp = async (
  wire: Wire,
  endpoint: Endpoint,
  target: Target,
  limits: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<Dialled> => {
  const asking = askOver(wire, limits.timeoutMs, limits.signal)
  try {
    const to = `${hostText(target)}:${target.port}`
    wire.socket.write(`CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\n${credentials(endpoint)}\r\n`)
    const head = await asking.head(maxHead)
    const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(head.toString('latin1'))?.[1] ?? Number.NaN)
    if (status >= 200 && status < 300) {
      asking.done()
      return { denied: false, wire }
    }
    asking.fail()
    return Number.isNaN(status) ? byExit('The exit does not answer like a proxy.') : refusal(status)
  } catch (error) {
    asking.fail()
    throw error
  }
}

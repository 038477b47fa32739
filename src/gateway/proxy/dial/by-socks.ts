import { blocked, socksReplies } from '../refusals.ts'
import { encodeTarget, targetLength, version } from '../socks/wire-form.ts'
import type { Target } from '../targets/host.ts'
import type { Wire } from '../wire.ts'
import { type Asking, askOver } from './asking.ts'
import {
  byExit,
  byTarget,
  type Dialled,
  type NotConnected,
  targetRefused,
  targetTimeout,
  targetUnreachable,
} from './dialled.ts'
import type { Endpoint } from './endpoint.ts'

const noAuthentication = 0
const byPassword = 2

/** What another proxy's reply means. General failure is what many answer for a target that does not. */
const refusal = (reply: number): NotConnected => {
  switch (reply) {
    case socksReplies.notAllowed:
      return byTarget(blocked('The exit does not let this target through.'))
    case socksReplies.refused:
      return byTarget(targetRefused())
    case socksReplies.ttlExpired:
      return byTarget(targetTimeout())
    default:
      return byTarget(targetUnreachable())
  }
}

/** Greeting and RFC 1929. @returns null when the exit lets us in */
const logIn = async (
  wire: Wire,
  asking: Asking,
  { username, password }: Endpoint,
): Promise<NotConnected | null> => {
  const method = username === null ? noAuthentication : byPassword
  wire.socket.write(Buffer.of(version, 1, method))
  const chosen = await asking.exactly(2)
  if (chosen[0] !== version) return byExit('The exit does not answer like a SOCKS5 proxy.')
  if (chosen[1] !== method) return byExit('The exit does not accept how it is logged in to.')
  if (username === null) return null
  const name = Buffer.from(username)
  const word = Buffer.from(password ?? '')
  if (name.length > 255 || word.length > 255)
    return byExit('The credentials of the exit are too long for SOCKS5.')
  wire.socket.write(Buffer.concat([Buffer.of(1, name.length), name, Buffer.of(word.length), word]))
  return (await asking.exactly(2))[1] === 0 ? null : byExit('The exit did not accept its own credentials.')
}

export type SocksCommand = 'connect' | 'associate'

/** What the exit was asked for, and the address that it answered with: that of its UDP relay. */
export type SocksAnswer = NotConnected | { readonly denied: false; readonly bound: Buffer }

/** Logs in to a SOCKS5 proxy and sends it one command. @throws what `askOver` throws */
export const commandBySocks = async (
  wire: Wire,
  endpoint: Endpoint,
  command: SocksCommand,
  target: Pick<Target, 'host' | 'family' | 'port'>,
  limits: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<SocksAnswer> => {
  const asking = askOver(wire, limits.timeoutMs, limits.signal)
  const failed = (why: NotConnected): NotConnected => {
    asking.fail()
    return why
  }
  try {
    const refused = await logIn(wire, asking, endpoint)
    if (refused) return failed(refused)
    wire.socket.write(
      Buffer.concat([Buffer.of(version, command === 'connect' ? 1 : 3, 0), encodeTarget(target)]),
    )
    const reply = await asking.exactly(5)
    const length = targetLength(reply[3]!, reply[4]!)
    if (reply[0] !== version || length === null)
      return failed(byExit('The exit does not answer like a SOCKS5 proxy.'))
    if (reply[1] !== socksReplies.succeeded) return failed(refusal(reply[1]!))
    const rest = await asking.exactly(length - 2)
    asking.done()
    return { denied: false, bound: Buffer.concat([reply.subarray(3), rest]) }
  } catch (error) {
    asking.fail()
    throw error
  }
}

/** A connection through a SOCKS5 proxy; the proxy resolves names. */
export const tunnelBySocks = async (
  wire: Wire,
  endpoint: Endpoint,
  target: Target,
  limits: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<Dialled> => {
  const answer = await commandBySocks(wire, endpoint, 'connect', target, limits)
  return answer.denied ? answer : { denied: false, wire }
}

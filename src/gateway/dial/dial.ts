import { createHash, randomBytes } from 'node:crypto'
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { interleaveFamilies, RaceTimeout } from '../../platform/outgoing/race.ts'
import { type BufferedSocket, raceToSocket } from '../buffered-socket.ts'
import type { Client, GatewayContext } from '../client.ts'
import type { Admission, Denied, Exit, Route } from '../gateway-ports.ts'
import {
  clientGone,
  dnsTimeout,
  gatewayUnavailable,
  hostNotFound,
  proxyName,
  sessionFailed,
  targetRefused,
  targetTimeout,
  targetUnreachable,
} from '../refusals.ts'
import type { Target } from '../targets.ts'
import {
  type Dialled,
  type Endpoint,
  exitFailure,
  openEndpoint,
  targetFailure,
  tunnelByHttp,
  tunnelBySocks,
} from './via-exit.ts'

/** A connection to the target, and the route facts for the client. */
type OpenedRoute = {
  readonly denied: false
  readonly wire: BufferedSocket
  readonly exit: Exit
  readonly fallback: boolean
  readonly stickyMinutesLeft: number | null
}

/**
 * Connects to a target through an exit of the admission. If an exit fails, the next one is tried. A session has one
 * exit, which is tried again. Never rejects.
 * @returns 464, 465, 502, 503, 504 or 568 if there is no connection
 */
export const openRoute = async (
  context: GatewayContext,
  client: Pick<Client, 'disconnected' | 'requestId'>,
  admission: Admission,
  target: Target,
): Promise<OpenedRoute | Denied> => {
  const { rules, limits, clock, metrics } = context
  const refused = rules.refused(target)
  if (refused) return refused
  const { dedicated } = admission
  const session = sessionOf(admission)
  const deadlineMs = clock() + limits.dialMs
  let lastDenied: Denied = gatewayUnavailable
  for (let tries = dedicated === null ? limits.exitTries : 1; tries > 0; tries--) {
    const route = await chooseExit(context, client, admission, false)
    if (route.denied) return route
    const startedMs = clock()
    const timeoutMs = deadlineMs - startedMs
    if (client.disconnected.aborted || timeoutMs <= 0) {
      route.done('unused', 0)
      route.close()
      return client.disconnected.aborted ? clientGone : lastDenied
    }
    const dialled = await dial(context, {
      exit: route.exit,
      target,
      session: route.sessionName ?? session,
      timeoutMs,
      signal: client.disconnected,
    })
    const ms = clock() - startedMs
    // A client that gave up and a forbidden target are no measure of the exit.
    const isGone = dialled.denied && client.disconnected.aborted
    const isUnused = isGone || (dialled.denied && dialled.why.status === 464)
    const isExitFault = dialled.denied && dialled.fault === 'exit' && !isUnused
    // The route is closed first, because the next calls may throw.
    if (dialled.denied || dialled.wire.socket.closed) route.close()
    else dialled.wire.socket.once('close', route.close)
    try {
      route.done(isExitFault ? 'failed' : isUnused ? 'unused' : 'connected', ms)
      if (!isGone)
        metrics.dialled(route.exit.via.kind, dialled.denied ? `${dialled.fault}_failed` : 'connected', ms)
    } catch (error) {
      if (!dialled.denied) dialled.wire.socket.destroy()
      throw error
    }
    if (!dialled.denied) {
      const { fallback, stickyMinutesLeft } = route
      admission.reached?.({ host: target.host, port: target.port, exit: route.exit })
      return { denied: false, wire: dialled.wire, exit: route.exit, fallback, stickyMinutesLeft }
    }
    lastDenied = isGone ? clientGone : dialled.why
    if (!isExitFault) return lastDenied
  }
  return session === null || dedicated !== null ? lastDenied : sessionFailed
}

/** The exit of an admission: the dedicated one, or one of the pool. */
export const chooseExit = async (
  { exits, logger }: Pick<GatewayContext, 'exits' | 'logger'>,
  { requestId }: Pick<Client, 'requestId'>,
  { dedicated, holder, line, family }: Admission,
  udp: boolean,
): Promise<Route | Denied> => {
  if (dedicated !== null) return dedicatedRoute(dedicated)
  try {
    return await exits.route({ holder, line, udp, family: family ?? null })
  } catch (err) {
    logger.error({ err, requestId }, 'choosing an exit failed')
    return gatewayUnavailable
  }
}

const dedicatedRoute = (exit: Exit): Route => ({
  denied: false,
  exit,
  fallback: false,
  stickyMinutesLeft: null,
  done: () => undefined,
  close: () => undefined,
})

/** The default session name that fixes the address within a prefix; null: a random address each time. */
export const sessionOf = ({ holder, line }: Admission): string | null =>
  line.session === null ? null : `${holder} ${line.session.id}`

type DialRequest = {
  readonly exit: Exit
  readonly target: Target
  /** The session name that fixes the address within a prefix; null: a random address each time. */
  readonly session: string | null
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/** Connects to a target through an exit. Never rejects. */
const dial = (context: GatewayContext, request: DialRequest): Promise<Dialled> => {
  const { via } = request.exit
  switch (via.kind) {
    case 'direct':
      return dialDirect(context, request, via.localAddress)
    case 'prefix':
      return dialDirect(context, request, addressOfPrefix(via.prefix, request.session))
    case 'http':
    case 'https':
    case 'socks5':
      return dialThroughEndpoint(context, request, via)
    default:
      return via satisfies never
  }
}

/** Connects from this machine. The checked addresses are exactly those that are dialled. */
const dialDirect = async (
  context: GatewayContext,
  { exit, target, timeoutMs, signal }: DialRequest,
  localAddress: string | null,
): Promise<Dialled> => {
  const sandboxAddress = exit.sandboxHosts?.[`${target.host}:${target.port}`]
  const addresses = sandboxAddress
    ? [sandboxAddress.host]
    : await targetAddresses(context, target, localAddress, exit.sandbox)
  if ('denied' in addresses) return targetFailure(addresses)
  try {
    const wire = await raceToSocket({
      onFault: context.onFault,
      addresses: interleaveFamilies(addresses),
      port: sandboxAddress?.port ?? target.port,
      localAddress,
      timeoutMs,
      signal,
    })
    return { denied: false, wire }
  } catch (error) {
    if (error instanceof RaceTimeout) return targetFailure(targetTimeout)
    const { code } = error as NodeJS.ErrnoException
    if (code !== undefined && localFaults.has(code))
      return exitFailure('The exit has no address to connect from.')
    return targetFailure(targetFault(code))
  }
}

/** Error codes of this machine: it lacks the address of the exit, or it has no free ports. */
const localFaults: ReadonlySet<string> = new Set([
  'EADDRNOTAVAIL',
  'EADDRINUSE',
  'EINVAL',
  'EACCES',
  'EMFILE',
])

/** The refusal for the error code of a socket to the target. */
const targetFault = (code: string | undefined): Denied => {
  switch (code) {
    case 'ECONNREFUSED':
    case 'ECONNRESET':
      return targetRefused
    case 'ETIMEDOUT':
      return targetTimeout
    default:
      return targetUnreachable
  }
}

/** The addresses of a target, or the reason for a refusal. One forbidden address refuses the whole name. */
export const targetAddresses = async (
  { resolve, rules }: Pick<GatewayContext, 'resolve' | 'rules'>,
  target: Target,
  localAddress: string | null,
  loopback: boolean,
): Promise<readonly string[] | Denied> => {
  let candidates: readonly string[] = [target.host]
  if (target.family === 0) {
    const refused = rules.refusedHost(target, loopback)
    if (refused) return refused
    try {
      candidates = await resolve(target.host)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      return code === 'ETIMEOUT' || code === 'ECANCELLED' || code === 'ESERVFAIL' ? dnsTimeout : hostNotFound
    }
    if (candidates.length === 0) return hostNotFound
  }
  for (const address of candidates) {
    const refused = rules.refusedAddress(address, target.port, loopback)
    if (refused) return refused
  }
  const family = localAddress === null ? 0 : isIP(localAddress)
  const reachable = family === 0 ? candidates : candidates.filter((address) => isIP(address) === family)
  return reachable.length === 0 ? targetUnreachable : reachable
}

/**
 * An address of an IPv6 prefix. The same name always gives the same address; null gives a random one.
 * @param prefix such as `2001:db8:1::/64`
 * @throws Error when the prefix is invalid
 */
export const addressOfPrefix = (prefix: string, name: string | null): string => {
  const [network, bits] = ipaddr.IPv6.parseCIDR(prefix)
  const hostBits =
    name === null ? randomBytes(16) : createHash('sha256').update(name).digest().subarray(0, 16)
  const bytes = network.toByteArray().map((byte, at) => {
    const fixedBits = Math.min(Math.max(bits - 8 * at, 0), 8)
    const mask = (0xff << (8 - fixedBits)) & 0xff
    return (byte & mask) | ((hostBits[at] ?? 0) & ~mask & 0xff)
  })
  return new ipaddr.IPv6(bytes).toString()
}

/** The time limit of a connection to an exit, milliseconds. */
const endpointMs = 5_000

const dialThroughEndpoint = async (
  context: GatewayContext,
  { exit, target, timeoutMs, signal }: DialRequest,
  endpoint: Endpoint,
): Promise<Dialled> => {
  const { rules, clock } = context
  const refused = rules.refusedHost(target, exit.sandbox)
  if (refused) return targetFailure(refused)
  const startedMs = clock()
  try {
    const wire = await openEndpoint(context, endpoint, { timeoutMs: Math.min(timeoutMs, endpointMs), signal })
    const limits = { timeoutMs: Math.max(timeoutMs - (clock() - startedMs), 1), signal }
    try {
      const tunnel = endpoint.kind === 'socks5' ? tunnelBySocks : tunnelByHttp
      return await tunnel(wire, endpoint, target, limits)
    } catch (error) {
      // The exit accepted the connection and waits for the target. So the target is slow.
      if (error instanceof RaceTimeout) return targetFailure(targetTimeout)
      return exitFailure('The exit broke the connection off.')
    }
  } catch {
    return exitFailure('The exit does not answer.')
  }
}

/** Header lines of the gateway for the responses of a route, each with its line end. */
export const formatRouteHeaders = ({ fallback, stickyMinutesLeft }: OpenedRoute): string =>
  `Proxy-Status: ${proxyName}\r\n` +
  (fallback ? 'X-Proxy-Fallback: country\r\n' : '') +
  (stickyMinutesLeft === null ? '' : `X-Proxy-Session-Minutes: ${stickyMinutesLeft}\r\n`)

/** The line with the request id, with its line end. */
export const formatRequestId = (requestId: string): string => `X-Proxy-Request-Id: ${requestId}\r\n`

import type { Socket } from 'node:net'
import { addressSubject } from '../kernel/ip-address.ts'
import { noopHandler } from './buffered-socket.ts'
import { type Client, type ClientConnection, createClient, type GatewayContext } from './client.ts'
import { formatRequestId, formatRouteHeaders, openRoute } from './dial/dial.ts'
import { createForwarding, type Forwarding } from './http/forward.ts'
import { BadMessage, createHeadCollector, type Head } from './http/message-head.ts'
import { type ConnectRequest, credentialsOf, parseRequest, SchemeRefused } from './http/parse-request.ts'
import type { Peer } from './proxy-header.ts'
import { atCapacity, type OwnAnswer, targetBlocked } from './refusals.ts'
import { runTunnel } from './relay/tunnel.ts'
import { serveSocks } from './socks/socks-session.ts'

/*
 * The life of a client connection, in the order of this file:
 *
 * 1. accept: count the connection against the limits of its address and of the gateway;
 * 2. detect the protocol by the first byte (SOCKS5 continues in socks/socks-session.ts);
 * 3. read the head of a request (requests in absolute form continue in http/forward.ts);
 * 4. authenticate the client and admit the connection to its plan or rental (admit/admit.ts);
 * 5. choose an exit and dial the target through it (dial/dial.ts);
 * 6. answer;
 * 7. relay bytes (relay/tunnel.ts), each charged to the plan's budget before it is forwarded (admit/budget.ts);
 * 8. close: record the outcome and end the plan's tunnel.
 */

/** Connections beyond this share of the limit are closed without an answer. */
export const hardShare = 1.1

/** The open client connections of a gateway. */
export type Connections = {
  /** Serves a client until its socket is closed. */
  accept(socket: Socket, peer: Peer): void
  /** Counts an unauthenticated connection. @returns a function that ends the count; null: the connection is closed */
  count(socket: Socket, peer: Peer): (() => void) | null
  /** Serves a counted connection. @param endCount is called when the client is authenticated */
  serve(socket: Socket, peer: Peer, endCount: () => void): void
  readonly size: number
  /** Ends idle connections, waits up to `drainMs` for the others to end, and destroys the rest. */
  drain(): Promise<void>
}

export const createConnections = (context: GatewayContext): Connections => {
  const { limits, metrics, onFault } = context
  const openConnections = new Set<ClientConnection>()
  const unauthenticated = new Map<string, number>()
  let onAllClosed = (): void => undefined

  const count: Connections['count'] = (socket, { source }) => {
    const subject = addressSubject(source)
    const unauthenticatedCount = unauthenticated.get(subject) ?? 0
    if (
      unauthenticatedCount >= limits.unauthenticatedPerAddress ||
      openConnections.size >= limits.connections * hardShare
    ) {
      metrics.refused(503, 'gateway_full')
      socket.destroy()
      return null
    }
    unauthenticated.set(subject, unauthenticatedCount + 1)
    let isCounted = true
    const endCount = (): void => {
      if (!isCounted) return
      isCounted = false
      const remaining = (unauthenticated.get(subject) ?? 1) - 1
      if (remaining === 0) unauthenticated.delete(subject)
      else unauthenticated.set(subject, remaining)
    }
    socket.once('close', endCount)
    return endCount
  }
  const serve: Connections['serve'] = (socket, peer, endCount) => {
    const connection = createClient(context, socket, peer, endCount)
    openConnections.add(connection)
    metrics.connected()
    socket.once('close', () => {
      openConnections.delete(connection)
      metrics.disconnected()
      if (openConnections.size === 0) onAllClosed()
    })
    try {
      detectProtocol(context, connection.client, openConnections.size > limits.connections)
    } catch (error) {
      onFault(error)
      socket.destroy()
    }
  }
  return {
    accept: (socket, peer) => {
      socket.on('error', () => undefined) // the buffered socket reports it to the handler
      const endCount = count(socket, peer)
      if (endCount !== null) serve(socket, peer, endCount)
    },
    count,
    serve,
    get size() {
      return openConnections.size
    },
    drain: async () => {
      if (openConnections.size === 0) return
      const allClosed = new Promise<void>((resolve) => {
        onAllClosed = resolve
      })
      for (const each of openConnections) each.drain()
      const destroyTimer = setTimeout(() => {
        for (const each of openConnections) each.destroy()
      }, limits.drainMs)
      await allClosed
      clearTimeout(destroyTimer)
    },
  }
}

const socks5 = 0x05
/** "No acceptable methods" (RFC 1928 section 3): a SOCKS client gets no other error before it authenticates. */
const noAcceptableMethod = Buffer.of(5, 0xff)

/** A method begins with a token character. An empty line may precede it. */
const beginsHttp = (byte: number): boolean => /[!#$%&'*+\-.^_`|~0-9A-Za-z\r]/.test(String.fromCharCode(byte))

const unknownProtocol: OwnAnswer = {
  status: 400,
  error: 'bad_request',
  detail: 'Bad request: this port speaks HTTP/1.1 and SOCKS5, without TLS where it is not the TLS port.',
}

/** @param isAtLimit the limit of open connections is reached: the client is refused in its protocol */
const detectProtocol = (context: GatewayContext, client: Client, isAtLimit: boolean): void => {
  const { wire, deadline } = client
  const { socket } = wire
  deadline.within(context.limits.headMs, () => socket.destroy())
  wire.use({
    ...noopHandler,
    bytes: (chunk) => {
      wire.unshift(chunk)
      const isSocks = chunk[0] === socks5
      if (!isSocks && !beginsHttp(chunk[0]!)) client.refuse(unknownProtocol)
      else if (!isAtLimit) (isSocks ? serveSocks : serveHttp)(context, client)
      else if (isSocks) {
        client.refused(503, atCapacity.error)
        client.end(noAcceptableMethod)
      } else client.refuse(atCapacity)
      return false
    },
    end: () => socket.end(),
  })
}

/** Serves HTTP/1 to one client: CONNECT, or consecutive requests in absolute form. */
const serveHttp = (context: GatewayContext, client: Client): void => {
  const { limits } = context
  const { wire, deadline } = client
  const heads = createHeadCollector(limits.headBytes)
  let forwarding: Forwarding | null = null
  let isDraining = false
  let isBetweenRequests = false

  /** Created with the first plain request, because a tunnel needs none. */
  const forwarder = (): Forwarding => {
    if (forwarding === null) {
      forwarding = createForwarding(context, client)
      if (isDraining) forwarding.drain()
    }
    return forwarding
  }

  const serve = (head: Head): void => {
    isBetweenRequests = false
    const request = parseRequest(head)
    if (request.kind === 'forward') {
      forwarder().forward(request, readNext)
      return
    }
    forwarding?.close()
    client.contain(serveConnect(context, client, request))
  }
  const end = (answer: OwnAnswer): void => {
    forwarding?.close()
    client.refuse(answer)
  }
  /** Refuses a scheme that is not forwarded. Only admitted clients receive this reason. */
  const refuseScheme = async ({ authorization }: SchemeRefused): Promise<void> => {
    client.detach()
    forwarding?.close()
    const admission = await client.admit('http', credentialsOf(authorization))
    const why = admission.denied
      ? admission
      : targetBlocked('Only http:// is forwarded; everything else goes through CONNECT.')
    if (!admission.denied) admission.close({ error: why.error, host: null })
    client.refuse(why)
  }
  const handleError = (error: unknown): void => {
    if (error instanceof SchemeRefused) client.contain(refuseScheme(error))
    else if (error instanceof BadMessage) end(badRequest(error))
    else throw error
  }
  const bytes = (chunk: Buffer): boolean => {
    try {
      const rest = heads.begun ? chunk : withoutEmptyLine(chunk)
      if (rest.length === 0) return true
      if (!heads.begun && isBetweenRequests) deadline.within(limits.headMs, handleTimeout)
      const parsedHead = heads.add(rest)
      if (parsedHead === null) return true
      wire.unshift(parsedHead.rest)
      serve(parsedHead.head)
    } catch (error) {
      handleError(error)
    }
    return false
  }
  const handleTimeout = (): void => {
    if (isBetweenRequests && !heads.begun) {
      forwarding?.close()
      wire.socket.destroySoon()
    } else end(headTimeout(limits.headMs))
  }
  const closeForwarding = (): void => forwarding?.close()
  const readHead = (): void =>
    wire.use({
      ...noopHandler,
      bytes,
      end: () => {
        closeForwarding()
        wire.socket.end()
      },
      closed: closeForwarding,
    })
  const readNext = (): void => {
    isBetweenRequests = true
    client.nextRequestId()
    deadline.within(limits.idleMs, handleTimeout)
    readHead()
  }
  client.onDrain(() => {
    isDraining = true
    forwarding?.drain()
    if (isBetweenRequests && !heads.begun) handleTimeout()
  })
  deadline.within(limits.headMs, handleTimeout)
  readHead()
}

const badRequest = ({ status, message }: BadMessage): OwnAnswer => ({
  status,
  error: status === 431 ? 'head_too_large' : status === 505 ? 'version_not_supported' : 'bad_request',
  detail: `Bad request: ${message}.`,
})
const headTimeout = (ms: number): OwnAnswer => ({
  status: 408,
  error: 'head_timeout',
  detail: `The head of the request did not come within ${ms / 1_000} seconds.`,
})

const cr = 0x0d
const lf = 0x0a
/** Some clients send an empty line after a body (RFC 9112 section 2.2). */
const withoutEmptyLine = (chunk: Buffer): Buffer =>
  chunk[0] === cr && chunk[1] === lf ? chunk.subarray(2) : chunk

/** Serves CONNECT: admits the client, connects to the target, answers, and relays bytes until both sides end. */
const serveConnect = async (
  context: GatewayContext,
  client: Client,
  { target, authorization }: ConnectRequest,
): Promise<void> => {
  client.detach()
  const admission = await client.admit('connect', credentialsOf(authorization))
  if (admission.denied) return client.refuse(admission)
  const opened = await openRoute(context, client, admission, target)
  if (opened.denied) {
    admission.close({ error: opened.error, host: target.host, port: target.port })
    return client.refuse(opened)
  }
  client.wire.socket.write(
    `HTTP/1.1 200 Connection established\r\n${formatRequestId(client.requestId)}${formatRouteHeaders(opened)}\r\n`,
    'latin1',
  )
  runTunnel(context, client, opened.wire, admission, 'connect', (error) =>
    admission.close({ error, host: target.host, port: target.port, exit: opened.exit }),
  )
}

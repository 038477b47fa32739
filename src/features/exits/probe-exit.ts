import { connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import ipaddr from 'ipaddr.js'
import type { ExitVia } from '../../domain/exits/events.ts'
import type { Login } from '../../platform/vault/logins.ts'

/** What can be probed without a target: an endpoint that accepts connections, or an address of this machine. */
export type Probe = { readonly via: ExitVia; readonly login: Login | null }

type ProbeResult = {
  readonly ok: boolean
  readonly latencyMs: number
  readonly problem: string | null
}

const timeoutMs = 2_500

/** Binds and releases the address, which shows that it belongs to this machine. */
const bind = (host: string): Promise<void> =>
  new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen({ host, port: 0 }, () => server.close(() => resolve()))
  })

const opened = (socket: Socket, event: 'connect' | 'secureConnect'): Promise<void> =>
  new Promise((resolve, reject) => {
    socket.once('error', reject)
    socket.once(event, resolve)
  })

const answer = (socket: Socket): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    socket.once('error', reject)
    socket.once('data', resolve)
    socket.once('end', () => reject(new Error('it closed the connection')))
  })

/** Greets a SOCKS5 server and authenticates (RFC 1928, 1929). Sends no request. */
const greet = async (socket: Socket, login: Login | null): Promise<void> => {
  socket.write(login === null ? Buffer.of(5, 1, 0) : Buffer.of(5, 2, 0, 2))
  const [version, method] = await answer(socket)
  if (version !== 5 || method === 0xff || method === undefined) throw new Error('it speaks no SOCKS5 with us')
  if (method === 0) return
  if (login === null) throw new Error('it wants a username and a password')
  const [user, pass] = [Buffer.from(login.username), Buffer.from(login.password)]
  socket.write(Buffer.concat([Buffer.of(1, user.length), user, Buffer.of(pass.length), pass]))
  const [, status] = await answer(socket)
  if (status !== 0) throw new Error('it refuses the username and the password')
}

const attemptConnection = async (
  protocol: 'http' | 'https' | 'socks5',
  proxyEndpoint: { readonly host: string; readonly port: number },
  login: Login | null,
): Promise<void> => {
  const { host, port } = proxyEndpoint
  const socket =
    protocol === 'https' ? connectTls({ host, port, rejectUnauthorized: false }) : connect({ host, port })
  try {
    await opened(socket, protocol === 'https' ? 'secureConnect' : 'connect')
    if (protocol === 'socks5') await greet(socket, login)
  } finally {
    socket.on('error', () => undefined)
    socket.destroy()
  }
}

/** The address that follows the prefix's own address. */
const firstOf = (prefix: string): string => {
  const [network] = ipaddr.IPv6.parseCIDR(prefix)
  const bytes = ipaddr.IPv6.networkAddressFromCIDR(prefix).toByteArray()
  bytes[15] = (bytes[15] ?? 0) | 1
  return bytes.length === 16 ? ipaddr.fromByteArray(bytes).toString() : network.toString()
}

const probeOnce = async ({ via, login }: Probe): Promise<void> => {
  switch (via.kind) {
    case 'direct':
      return via.localAddress === null ? undefined : bind(via.localAddress)
    case 'prefix':
      return bind(firstOf(via.prefix))
    case 'template':
      // Its login is generated for each connection, so only the endpoint is probed.
      return via.protocol === 'socks5'
        ? attemptConnection('http', via, null)
        : attemptConnection(via.protocol, via, null)
    default:
      return attemptConnection(via.kind, via, login)
  }
}

/** Exits with the same endpoint and login have the same key and are probed once. */
export const probeKey = ({ via, login }: Probe): string =>
  JSON.stringify(via.kind === 'template' ? { ...via } : [via, login?.username ?? null])

/** Probes an exit within 2.5 seconds. No traffic goes through the exit, so it costs nothing. */
export const probe = async (exitProbe: Probe): Promise<ProbeResult> => {
  const startMs = performance.now()
  const stop = new AbortController()
  const timeout = sleep(timeoutMs, undefined, { signal: stop.signal }).then(() => {
    throw new Error(`no answer within ${timeoutMs / 1_000} s`)
  })
  timeout.catch(() => undefined)
  try {
    await Promise.race([probeOnce(exitProbe), timeout])
    return { ok: true, latencyMs: performance.now() - startMs, problem: null }
  } catch (error) {
    return { ok: false, latencyMs: performance.now() - startMs, problem: (error as Error).message }
  } finally {
    stop.abort()
  }
}

import type { Failure } from '../../domain/exits/connection-failures.ts'
import { noopHandler } from '../buffered-socket.ts'
import type { Client, GatewayContext } from '../client.ts'
import { openRoute } from '../dial/dial.ts'
import type { Admission, Denied } from '../gateway-ports.ts'
import { targetBlocked } from '../refusals.ts'
import { runTunnel } from '../relay/tunnel.ts'
import type { Target } from '../targets.ts'
import { decodeTarget, socksReplies, socksReply, socksReplyOf, version } from './socks-messages.ts'
import { associate } from './udp-relay.ts'

const methods = { none: 0, password: 2, notAcceptable: 0xff } as const
const passwordVersion = 1
const commands = { connect: 1, bind: 2, associate: 3 } as const

/** A parsed message and its length; null: the message is incomplete. */
type ParseResult<Value> = { readonly value: Value; readonly length: number } | null

const readGreeting = (bytes: Buffer): ParseResult<readonly number[]> => {
  const count = bytes[1]
  if (count === undefined || bytes.length < 2 + count) return null
  return { value: [...bytes.subarray(2, 2 + count)], length: 2 + count }
}

const readPassword = (bytes: Buffer): ParseResult<{ username: string; password: string } | 'bad'> => {
  if (bytes[0] !== passwordVersion) return { value: 'bad', length: bytes.length }
  const nameLength = bytes[1]
  if (nameLength === undefined) return null
  const passwordLength = bytes[2 + nameLength]
  if (passwordLength === undefined) return null
  const end = 3 + nameLength + passwordLength
  if (bytes.length < end) return null
  return {
    value: {
      username: bytes.toString('utf8', 2, 2 + nameLength),
      password: bytes.toString('utf8', 3 + nameLength, end),
    },
    length: end,
  }
}

type SocksRequest = { readonly command: number; readonly destination: ReturnType<typeof decodeTarget> }

const readRequest = (bytes: Buffer): ParseResult<SocksRequest | 'bad'> => {
  const [firstByte = version, , reserved = 0] = bytes
  if (firstByte !== version || reserved !== 0) return { value: 'bad', length: bytes.length }
  if (bytes.length < 5) return null
  const destination = decodeTarget(bytes, 3)
  if (destination.kind === 'more') return null
  const length = destination.kind === 'read' ? 3 + destination.length : bytes.length
  return { value: { command: bytes[1]!, destination }, length }
}

/** Serves SOCKS5 (RFC 1928), with user name and password (RFC 1929), or without them from a whitelisted address. */
export const serveSocks = (context: GatewayContext, client: Client): void => {
  const { limits, clock } = context
  const { wire, deadline } = client
  const { socket } = wire
  let admission: Admission | null = null
  /** The deadline of the log-in. The request after it gets the same time again. */
  let deadlineMs = clock() + limits.headMs

  const close = (error: Failure | null): void => {
    admission?.close({ error, host: null })
    admission = null
  }
  /** Reads one message. Later bytes are buffered. */
  const read = <Value>(
    parse: (bytes: Buffer) => ParseResult<Value>,
    handle: (value: Value) => void,
  ): void => {
    let bytes: Buffer = Buffer.alloc(0)
    deadline.within(Math.max(deadlineMs - clock(), 0), () => socket.destroy())
    wire.use({
      ...noopHandler,
      bytes: (chunk) => {
        bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk])
        const found = parse(bytes)
        if (found === null) return true
        wire.unshift(bytes.subarray(found.length))
        client.detach()
        handle(found.value)
        return false
      },
      end: () => {
        close(null)
        socket.end()
      },
      closed: () => close(null),
    })
  }
  const refuse = (why: Denied, target: Target | null): void => {
    client.refused(why.status, why.error)
    admission?.close({
      error: why.error,
      host: target?.host ?? null,
      ...(target !== null && { port: target.port }),
    })
    admission = null
    client.end(socksReply(socksReplyOf(why)))
  }
  const endWith = (reply: number, error: Failure): void => {
    client.refused(400, error)
    close(error)
    client.end(socksReply(reply))
  }

  const connect = async (admitted: Admission, { destination }: SocksRequest): Promise<void> => {
    if (destination.kind !== 'read' || destination.target === null)
      return endWith(socksReplies.hostUnreachable, 'bad_target')
    const { target } = destination
    const opened = await openRoute(context, client, admitted, target)
    if (opened.denied) return refuse(opened, target)
    admission = null
    socket.write(socksReply(socksReplies.succeeded))
    runTunnel(context, client, opened.wire, admitted, 'socks5', (error) =>
      admitted.close({ error, host: target.host, port: target.port, exit: opened.exit }),
    )
  }
  const serve = (admitted: Admission | Denied, socksRequest: SocksRequest | 'bad'): void => {
    if (socksRequest === 'bad') endWith(socksReplies.failure, 'bad_request')
    else if (admitted.denied) refuse(admitted, null)
    else if (socksRequest.destination.kind === 'unknown_type')
      endWith(socksReplies.addressNotSupported, 'bad_request')
    else runCommand(admitted, socksRequest)
  }
  const runCommand = (admitted: Admission, socksRequest: SocksRequest): void => {
    switch (socksRequest.command) {
      case commands.connect:
        client.contain(connect(admitted, socksRequest))
        return
      case commands.bind:
        refuse(targetBlocked('BIND is not supported.'), null)
        return
      case commands.associate:
        admission = null
        client.contain(
          associate(context, client, admitted, (why) => {
            client.refused(why.status, why.error)
            client.end(socksReply(socksReplyOf(why)))
          }),
        )
        return
      default:
        endWith(socksReplies.commandNotSupported, 'bad_request')
    }
  }
  /** Reads the request. A refusal other than 407 is sent after the request, whose reply has more codes. */
  const awaitRequest = (admitted: Admission | Denied): void => {
    if (!admitted.denied) admission = admitted
    deadlineMs = clock() + limits.headMs
    if (client.disconnected.aborted) close(null)
    else read(readRequest, (socksRequest) => serve(admitted, socksRequest))
  }
  const withPassword = (): void => {
    socket.write(Buffer.of(version, methods.password))
    read(readPassword, (credentials) => client.contain(signIn(credentials)))
  }
  const signIn = async (credentials: { username: string; password: string } | 'bad'): Promise<void> => {
    if (credentials === 'bad') return client.end(Buffer.of(passwordVersion, 1))
    const admitted = await client.admit('socks5', credentials)
    if (admitted.denied && admitted.status === 407) {
      client.refused(admitted.status, admitted.error)
      return client.end(Buffer.of(passwordVersion, 1))
    }
    socket.write(Buffer.of(passwordVersion, 0))
    awaitRequest(admitted)
  }
  const withoutPassword = async (): Promise<void> => {
    const admitted = await client.admit('socks5', null)
    if (admitted.denied && admitted.status === 407) {
      client.refused(admitted.status, admitted.error)
      return client.end(Buffer.of(version, methods.notAcceptable))
    }
    socket.write(Buffer.of(version, methods.none))
    awaitRequest(admitted)
  }
  read(readGreeting, (offeredMethods) => {
    // The password method is preferred, because its username defines the line.
    if (offeredMethods.includes(methods.password)) return withPassword()
    if (offeredMethods.includes(methods.none)) return client.contain(withoutPassword())
    client.refused(407, 'no_common_method')
    client.end(Buffer.of(version, methods.notAcceptable))
  })
}

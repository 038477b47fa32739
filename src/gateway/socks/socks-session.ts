import type { Failure } from '../../domain/exits/connection-failures.ts'
import { discardHandler } from '../accept/buffered-socket.ts'
import type { Client } from '../accept/client-connection.ts'
import type { GatewayContext } from '../accept/gateway-context.ts'
import { openRoute } from '../dial/open-route.ts'
import type { Admission, Denied } from '../gateway-ports.ts'
import { socksReplies, socksReplyOf, targetBlocked } from '../refusals.ts'
import { tunnelOf } from '../relay/tunnel.ts'
import { decodeTarget, socksReply, version } from './socks-messages.ts'
import { associate } from './udp-associate.ts'

const methods = { none: 0, password: 2, notAcceptable: 0xff } as const
const passwordVersion = 1
const commands = { connect: 1, bind: 2, associate: 3 } as const

/** A parsed message and its length; null: the message is incomplete. */
type Read<Value> = { readonly value: Value; readonly length: number } | null

const readGreeting = (bytes: Buffer): Read<readonly number[]> => {
  const count = bytes[1]
  if (count === undefined || bytes.length < 2 + count) return null
  return { value: [...bytes.subarray(2, 2 + count)], length: 2 + count }
}

const readPassword = (bytes: Buffer): Read<{ username: string; password: string } | 'bad'> => {
  if (bytes[0] !== passwordVersion) return { value: 'bad', length: bytes.length }
  const nameLength = bytes[1]
  if (nameLength === undefined) return null
  const wordLength = bytes[2 + nameLength]
  if (wordLength === undefined) return null
  const end = 3 + nameLength + wordLength
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

const readRequest = (bytes: Buffer): Read<SocksRequest | 'bad'> => {
  const [first = version, , reserved = 0] = bytes
  if (first !== version || reserved !== 0) return { value: 'bad', length: bytes.length }
  if (bytes.length < 5) return null
  const destination = decodeTarget(bytes, 3)
  if (destination.kind === 'more') return null
  const length = destination.kind === 'read' ? 3 + destination.length : bytes.length
  return { value: { command: bytes[1]!, destination }, length }
}

/** Serves SOCKS5 (RFC 1928), with user name and password (RFC 1929), or without them from a whitelisted address. */
export const serveSocks = (context: GatewayContext, client: Client): void => {
  const { limits, clock } = context
  const { wire, watch } = client
  const { socket } = wire
  let admission: Admission | null = null
  /** The deadline of the log-in. The request after it gets the same time again. */
  let untilMs = clock() + limits.headMs

  const close = (error: Failure | null): void => {
    admission?.close({ error, host: null })
    admission = null
  }
  /** Reads one message. Later bytes are buffered. */
  const read = <Value>(parse: (bytes: Buffer) => Read<Value>, then: (value: Value) => void): void => {
    let bytes: Buffer = Buffer.alloc(0)
    watch.within(Math.max(untilMs - clock(), 0), () => socket.destroy())
    wire.use({
      bytes: (chunk) => {
        bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk])
        const found = parse(bytes)
        if (found === null) return true
        wire.unshift(bytes.subarray(found.length))
        client.detach()
        then(found.value)
        return false
      },
      end: () => {
        close(null)
        socket.end()
      },
      drain: () => undefined,
      closed: () => close(null),
      holds: () => false,
    })
  }
  const end = (last: Buffer): void => {
    watch.within(limits.lingerMs, () => socket.destroy())
    wire.use(discardHandler)
    socket.end(last)
  }
  const refuse = (why: Denied, host: string | null): void => {
    client.refused(why.status, why.error)
    admission?.close({ error: why.error, host })
    admission = null
    end(socksReply(socksReplyOf(why)))
  }
  const endWith = (reply: number, error: Failure): void => {
    client.refused(400, error)
    close(error)
    end(socksReply(reply))
  }

  const connect = async (known: Admission, { destination }: SocksRequest): Promise<void> => {
    if (destination.kind !== 'read' || destination.target === null)
      return endWith(socksReplies.hostUnreachable, 'bad_target')
    const { target } = destination
    const opened = await openRoute(context, client, known, target)
    if (opened.denied) return refuse(opened, target.host)
    admission = null
    socket.write(socksReply(socksReplies.succeeded))
    tunnelOf(context, client, opened.wire, known, 'socks5', (error) =>
      known.close({ error, host: target.host }),
    )
  }
  const serve = (known: Admission | Denied, asked: SocksRequest | 'bad'): void => {
    if (asked === 'bad') endWith(socksReplies.failure, 'bad_request')
    else if (known.denied) refuse(known, null)
    else if (asked.destination.kind === 'unknown_type')
      endWith(socksReplies.addressNotSupported, 'bad_request')
    else obey(known, asked)
  }
  const obey = (known: Admission, asked: SocksRequest): void => {
    switch (asked.command) {
      case commands.connect:
        client.contain(connect(known, asked))
        return
      case commands.bind:
        refuse(targetBlocked('BIND is not supported.'), null)
        return
      case commands.associate:
        admission = null
        client.contain(
          associate(context, client, known, (why) => {
            client.refused(why.status, why.error)
            end(socksReply(socksReplyOf(why)))
          }),
        )
        return
      default:
        endWith(socksReplies.commandNotSupported, 'bad_request')
    }
  }
  /** Reads the request. A refusal other than 407 is sent after the request, whose reply has more codes. */
  const awaitRequest = (known: Admission | Denied): void => {
    if (!known.denied) admission = known
    untilMs = clock() + limits.headMs
    if (client.disconnected.aborted) close(null)
    else read(readRequest, (asked) => serve(known, asked))
  }
  const withPassword = (): void => {
    socket.write(Buffer.of(version, methods.password))
    read(readPassword, (credentials) => client.contain(signIn(credentials)))
  }
  const signIn = async (credentials: { username: string; password: string } | 'bad'): Promise<void> => {
    if (credentials === 'bad') return end(Buffer.of(passwordVersion, 1))
    const known = await client.admit('socks5', credentials)
    if (known.denied && known.status === 407) {
      client.refused(known.status, known.error)
      return end(Buffer.of(passwordVersion, 1))
    }
    socket.write(Buffer.of(passwordVersion, 0))
    awaitRequest(known)
  }
  const withoutPassword = async (): Promise<void> => {
    const known = await client.admit('socks5', null)
    if (known.denied && known.status === 407) {
      client.refused(known.status, known.error)
      return end(Buffer.of(version, methods.notAcceptable))
    }
    socket.write(Buffer.of(version, methods.none))
    awaitRequest(known)
  }
  read(readGreeting, (offered) => {
    // The password method is preferred, because its username defines the line.
    if (offered.includes(methods.password)) return withPassword()
    if (offered.includes(methods.none)) return client.contain(withoutPassword())
    client.refused(407, 'no_common_method')
    end(Buffer.of(version, methods.notAcceptable))
  })
}

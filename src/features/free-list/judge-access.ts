import { isIPv4 } from 'node:net'
import { networkInterfaces } from 'node:os'
import ipaddr from 'ipaddr.js'
import type { Logger } from 'pino'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import { type ActiveJudge, probeJudgeDirectly } from './ask-judge.ts'
import { type JudgeKeys, makeNonce, startJudge } from './judge.ts'

/** Where proxies reach the judge, as an operator configures it. */
export type JudgeAddress = { readonly host: string; readonly httpPort: number; readonly tlsPort: number }

export type JudgeAccess = {
  /** Null while it was not found to answer. */
  active(): ActiveJudge | null
  /** Asks it directly, learns from its answer how this side is seen, and says whether it answered. */
  answers(): Promise<boolean>
  close(): Promise<void>
}

const timeoutMs = 3_000

const canonical = (ip: string): string => (ipaddr.isValid(ip) ? ipaddr.process(ip).toString() : ip)

/** Addresses of this machine that mean something outside of it. */
const ownAddresses = (): readonly string[] =>
  Object.values(networkInterfaces())
    .flatMap((all) => all ?? [])
    .map(({ address }) => canonical(address))

/**
 * The judge as this process asks for it: the configured one, or, on a sandbox, one of its own on loopback. Its name is
 * looked up with every direct question, and only its IPv4 addresses count: SOCKS4 knows no others.
 * @param parts.address null: one of its own on 127.0.0.1
 * @param parts.listen where this process serves the configured judge; null: another one does
 */
export const openJudge = async (parts: {
  readonly address: JudgeAddress | null
  readonly listen: { readonly host: string; readonly httpPort: number; readonly tlsPort: number } | null
  readonly keys: JudgeKeys
  /** Addresses of a host name. */
  readonly resolve: (host: string) => Promise<readonly string[]>
  readonly draw: () => string
  readonly clock: Clock
  readonly monotonicMs: MonotonicClock
  readonly logger: Logger
}): Promise<JudgeAccess> => {
  const { keys, clock, monotonicMs, logger } = parts
  const listen = parts.address === null ? { host: '127.0.0.1', httpPort: 0, tlsPort: 0 } : parts.listen
  const server = listen === null ? null : await startJudge({ keys, listen, clock })
  const address = parts.address ?? {
    host: '127.0.0.1',
    httpPort: server?.httpPort ?? 0,
    tlsPort: server?.tlsPort ?? 0,
  }
  let known: ActiveJudge | null = null
  const ask = async (): Promise<void> => {
    const { host } = address
    const ip = isIPv4(host) ? host : (await parts.resolve(host)).find((one) => isIPv4(one))
    if (ip === undefined) throw new Error(`${host} has no IPv4 address`)
    const place = { ...address, ip }
    const nonce = makeNonce(keys.nonces, clock(), parts.draw())
    const seen = await probeJudgeDirectly(place, keys, nonce, { timeoutMs, monotonicMs })
    // An address that this side had a minute ago may still stand in what a proxy passes on.
    known = { place, ownAddresses: new Set([...(known?.ownAddresses ?? ownAddresses()), seen.ip]) }
  }
  return {
    active: () => known,
    answers: () =>
      ask().then(
        () => true,
        (err) => {
          logger.debug({ err }, 'the judge of free proxies does not answer')
          return false
        },
      ),
    close: async () => {
      await server?.close()
    },
  }
}

import { isIPv4 } from 'node:net'
import { networkInterfaces } from 'node:os'
import ipaddr from 'ipaddr.js'
import type { Logger } from 'pino'
import type { Clock, MonotonicClock } from '../../kernel/clock.ts'
import { type ActiveJudge, probeJudgeDirectly } from './ask-judge.ts'
import { type JudgeKeys, makeNonce, startJudge } from './judge.ts'

/** The configured address at which proxies reach the judge. */
export type JudgeAddress = { readonly host: string; readonly httpPort: number; readonly tlsPort: number }

export type JudgeAccess = {
  /** Null until it has answered. */
  active(): ActiveJudge | null
  /** Requests it directly, stores this service's address from the answer, and returns whether it answered. */
  answers(): Promise<boolean>
  close(): Promise<void>
}

const timeoutMs = 3_000

const canonical = (ip: string): string => (ipaddr.isValid(ip) ? ipaddr.process(ip).toString() : ip)

/** Addresses of this machine's interfaces. */
const ownAddresses = (): readonly string[] =>
  Object.values(networkInterfaces())
    .flatMap((all) => all ?? [])
    .map(({ address }) => canonical(address))

/**
 * The judge for this process: the configured one or, on a sandbox, an own judge on loopback. Its name is resolved for
 * each direct request. Only IPv4 addresses are used, because SOCKS4 supports no others.
 * @param parts.address null: an own judge on 127.0.0.1
 * @param parts.listen where this process serves the configured judge; null: another process does
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
  let activeJudge: ActiveJudge | null = null
  const probeJudge = async (): Promise<void> => {
    const { host } = address
    const ip = isIPv4(host) ? host : (await parts.resolve(host)).find((one) => isIPv4(one))
    if (ip === undefined) throw new Error(`${host} has no IPv4 address`)
    const judgeTarget = { ...address, ip }
    const nonce = makeNonce(keys.nonces, clock(), parts.draw())
    const seen = await probeJudgeDirectly(judgeTarget, keys, nonce, { timeoutMs, monotonicMs })
    // Earlier addresses remain in the set: a proxy may still forward an address that this service had a minute ago.
    activeJudge = {
      place: judgeTarget,
      ownAddresses: new Set([...(activeJudge?.ownAddresses ?? ownAddresses()), seen.ip]),
    }
  }
  return {
    active: () => activeJudge,
    answers: () =>
      probeJudge().then(
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

import type { Socket } from 'node:net'
import { type Anonymity, type CheckError, type Protocol, protocols } from '../../domain/free-list/endpoint.ts'
import type { MonotonicClock } from '../../kernel/clock.ts'
import { createDeadlines } from '../../platform/work/deadlines.ts'
import { anonymityOf, type HeaderLine, type JudgeKeys, type JudgeObservation, worstOf } from './judge.ts'
import { type CheckOptions, type CheckResult, createSockets, ProbeFailure } from './probe-port.ts'
import {
  createWire,
  getPlain,
  getSecured,
  Intercepted,
  type JudgeTarget,
  judgeRequestHeaders,
  openByConnect,
  openBySocks4,
  openBySocks5,
  secured,
  type Wire,
} from './proxy-protocols.ts'

/** The judge, and the addresses from which it sees this service without a proxy. */
export type ActiveJudge = { readonly place: JudgeTarget; readonly ownAddresses: ReadonlySet<string> }

/** An endpoint that accepted a connection. */
export type ProbeTarget = {
  readonly judge: ActiveJudge
  readonly keys: JudgeKeys
  readonly options: Pick<CheckOptions, 'protocols' | 'login'>
  /** Opens another connection to it. */
  readonly dial: () => Promise<Socket>
  readonly nonce: () => string
  readonly monotonicMs: MonotonicClock
  /** Called for each protocol that passed, with its duration in milliseconds. */
  readonly onPassed: (ms: number) => void
  /** The accepted connection, and when it was started. */
  readonly first: { readonly socket: Socket; readonly startMs: number; readonly connectMs: number }
}

/** Errors by relevance. The most relevant one is reported for a proxy that failed in several ways. */
const errorPriority: readonly CheckError[] = [
  'auth_required',
  'tls_error',
  'bad_response',
  'refused',
  'connect_timeout',
]

const mostTelling = (failures: readonly ProbeFailure[]): ProbeFailure =>
  [...failures].sort((a, b) => errorPriority.indexOf(a.error) - errorPriority.indexOf(b.error))[0]!

/** The result for an endpoint where no protocol passed. */
export const failedCheckResult = (
  { error, message }: ProbeFailure,
  connectMs: number | null,
  interceptsTls: boolean | null = null,
): CheckResult => ({
  alive: false,
  protocols: [],
  anonymity: null,
  exitIp: null,
  interceptsTls,
  latencyMs: null,
  connectMs,
  error,
  detail: message,
})

type PassedProbe = {
  readonly protocol: Protocol
  readonly anonymity: Anonymity
  readonly ip: string
  readonly ms: number
}

const overTls = async (wire: Wire, { judge, keys, nonce }: ProbeTarget): Promise<JudgeObservation> => {
  const tls = await secured(wire.release(), judge.place, keys)
  return getSecured(tls.wire, judge.place, nonce(), keys)
}

/** The request that the judge received by this protocol. @throws ProbeFailure, CheckUnavailable */
const requestJudge = async (
  protocol: Protocol,
  wire: Wire,
  probeTarget: ProbeTarget,
): Promise<JudgeObservation> => {
  const { place } = probeTarget.judge
  const { login } = probeTarget.options
  const request = { nonce: probeTarget.nonce(), keys: probeTarget.keys, login }
  switch (protocol) {
    case 'http':
      return getPlain(wire, place, { ...request, proxied: true })
    case 'https':
      await openByConnect(wire, place, login)
      return overTls(wire, probeTarget)
    case 'socks4':
      await openBySocks4(wire, place, place.httpPort, login)
      return getPlain(wire, place, { ...request, proxied: false })
    case 'socks5':
      await openBySocks5(wire, place, place.httpPort, login)
      return getPlain(wire, place, { ...request, proxied: false })
    default:
      return protocol satisfies never
  }
}

const sentBy = (protocol: Protocol, { place }: ActiveJudge): readonly HeaderLine[] =>
  protocol === 'https'
    ? judgeRequestHeaders(place, place.tlsPort, 443)
    : judgeRequestHeaders(place, place.httpPort, 80)

/** @throws CheckUnavailable */
const probeProtocol = async (
  protocol: Protocol,
  probeTarget: ProbeTarget,
  openedSocket: { readonly socket: Socket; readonly startMs: number } | null,
): Promise<PassedProbe | ProbeFailure> => {
  const startMs = openedSocket?.startMs ?? probeTarget.monotonicMs()
  try {
    const socket = openedSocket?.socket ?? (await probeTarget.dial())
    const seen = await requestJudge(protocol, createWire(socket), probeTarget).finally(() => socket.destroy())
    const anonymity = anonymityOf(sentBy(protocol, probeTarget.judge), seen, probeTarget.judge.ownAddresses)
    const ms = probeTarget.monotonicMs() - startMs
    probeTarget.onPassed(ms)
    return { protocol, anonymity, ip: seen.ip, ms }
  } catch (error) {
    if (error instanceof ProbeFailure) return error
    throw error
  }
}

/**
 * Whether a SOCKS proxy intercepts TLS, if no CONNECT request showed it. Null when this cannot be determined.
 * @throws CheckUnavailable
 */
const socksIntercepts = async (
  protocol: 'socks4' | 'socks5',
  probeTarget: ProbeTarget,
): Promise<boolean | null> => {
  const open = protocol === 'socks5' ? openBySocks5 : openBySocks4
  try {
    const socket = await probeTarget.dial()
    try {
      const wire = createWire(socket)
      await open(wire, probeTarget.judge.place, probeTarget.judge.place.tlsPort, probeTarget.options.login)
      await overTls(wire, probeTarget)
      return false
    } finally {
      socket.destroy()
    }
  } catch (error) {
    if (error instanceof Intercepted) return true
    if (error instanceof ProbeFailure) return null
    throw error
  }
}

/**
 * Requests the judge through the endpoint by every protocol at once. A protocol with intercepted TLS does not pass.
 * @throws CheckUnavailable
 */
export const probeAllProtocols = async (probeTarget: ProbeTarget): Promise<CheckResult> => {
  const { options, first } = probeTarget
  const enabledProtocols = protocols.filter((protocol) => options.protocols?.includes(protocol) ?? true)
  const probeResults = await Promise.all(
    enabledProtocols.map((protocol, at) => probeProtocol(protocol, probeTarget, at === 0 ? first : null)),
  )
  const failures = probeResults.filter((one) => one instanceof ProbeFailure)
  let passed = probeResults.filter((one): one is PassedProbe => !(one instanceof ProbeFailure))
  let interceptsTls = failures.some((one) => one instanceof Intercepted)
    ? true
    : passed.some(({ protocol }) => protocol === 'https')
      ? false
      : null
  const socks = passed.map(({ protocol }) => protocol).findLast((one) => one === 'socks4' || one === 'socks5')
  if (interceptsTls === null && socks !== undefined) interceptsTls = await socksIntercepts(socks, probeTarget)
  if (interceptsTls === true) passed = passed.filter(({ protocol }) => protocol === 'http')
  const connectMs = Math.round(first.connectMs)
  if (passed.length === 0) {
    const allFailures = interceptsTls === true ? [...failures, new Intercepted()] : failures
    return failedCheckResult(mostTelling(allFailures), connectMs, interceptsTls)
  }
  const fastest = passed.reduce((best, one) => (one.ms < best.ms ? one : best))
  return {
    alive: true,
    protocols: passed.map(({ protocol }) => protocol),
    anonymity: worstOf(passed.map(({ anonymity }) => anonymity)),
    exitIp: fastest.ip,
    interceptsTls,
    latencyMs: Math.round(fastest.ms),
    connectMs,
    error: null,
    detail: null,
  }
}

const sweepMs = 100

/**
 * Requests the judge without a proxy. The answer shows that it works and from which address it sees this service.
 * @throws ProbeFailure, CheckUnavailable when it does not answer in time
 */
export const probeJudgeDirectly = async (
  judge: JudgeTarget,
  keys: JudgeKeys,
  nonce: string,
  { timeoutMs, monotonicMs }: { readonly timeoutMs: number; readonly monotonicMs: MonotonicClock },
): Promise<JudgeObservation> => {
  const sockets = createSockets(() => undefined)
  const deadlines = createDeadlines(monotonicMs, sweepMs)
  const watch = deadlines.watch()
  watch.within(timeoutMs, sockets.end)
  try {
    const socket = await sockets.dial({ ip: judge.ip, port: judge.httpPort })
    return await getPlain(createWire(socket), judge, { nonce, keys, proxied: false })
  } finally {
    watch.stop()
    deadlines.stop()
    sockets.end()
  }
}

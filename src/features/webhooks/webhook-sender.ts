import { LRUCache } from 'lru-cache'
import { Agent, type Dispatcher } from 'undici'
import { guardedConnector } from '../../platform/outgoing/connector.ts'
import { type Resolve, TargetRefused, type TargetRules } from '../../platform/outgoing/target.ts'

/** The result of one attempt. `status` is null when no answer was read; `error` is the reason, for the attempt log. */
export type Attempted = {
  readonly status: number | null
  /** The first kilobyte of the answer, as text. */
  readonly answer: string
  readonly retryAfter: string | undefined
  readonly error: string | null
}

export type Sender = {
  /** Sends once, without redirects. Never rejects. */
  send(
    url: string,
    request: { readonly body: Buffer; readonly headers: Readonly<Record<string, string>> },
  ): Promise<Attempted>
  close(): Promise<void>
}

export type SenderOptions = {
  readonly resolve: Resolve
  readonly rules: TargetRules
  /** Time limit of a whole attempt: name, connection, request and answer, milliseconds. Default 10,000. */
  readonly timeoutMs?: number
  /** Trusted in addition to the system's authorities (PEM): for tests and the benchmark. */
  readonly ca?: string
}

/** How long an idle connection is used again at most, milliseconds. */
const maxKeepAliveMs = 60_000
const maxReceivers = 10_000
/** Bytes of an answer that are stored, and bytes that are read before the connection is closed. */
const maxAnswerBytes = 1_024
const readBytes = 16_384

const closedEarly = 'the connection was closed before an answer'

/** The reason for a missing answer, worded for the operator of the receiver. It reveals nothing about our network. */
const reasonOf = (error: unknown): string => {
  if (error instanceof TargetRefused) return `refused: ${error.message}`
  const { name, code, message } = error as Error & { code?: string }
  if (name === 'TimeoutError' || code === 'UND_ERR_CONNECT_TIMEOUT') return 'timed out'
  if (code === 'ENOTFOUND' || code === 'ENODATA' || code === 'ETIMEOUT' || code === 'ESERVFAIL')
    return 'the host name does not resolve'
  if (code === 'ECONNREFUSED') return 'the connection was refused'
  if (code === 'ECONNRESET' || code === 'EPIPE' || code === 'UND_ERR_SOCKET') return closedEarly
  if (code === 'EHOSTUNREACH' || code === 'ENETUNREACH') return 'the host cannot be reached'
  if (name === 'HTTPParserError' || code?.startsWith('HPE_') || code?.startsWith('UND_ERR_'))
    return `no valid HTTP answer (${code ?? name})`
  if (code?.startsWith('ERR_TLS') || /certificate|self-signed|SSL|TLS/i.test(`${code} ${message}`))
    return `TLS failed (${code ?? 'handshake'})`
  return code ?? 'failed'
}

/** Postgres texts cannot contain NUL. */
const textOf = (chunks: readonly Buffer[]): string =>
  Buffer.concat(chunks).toString('utf8').replaceAll('\u0000', '\ufffd')

/**
 * Sends one request and stores the beginning of its answer. The rest is not read. A truncated answer counts like a
 * complete one, because the status line alone acknowledges. A custom handler takes the bytes: the stream, its iterator
 * and the abort signal of `agent.request` need more processor time than signing. Never rejects.
 */
const exchange = (
  agent: Dispatcher,
  request: Dispatcher.DispatchOptions,
  timeoutMs: number,
): Promise<Attempted> =>
  new Promise((resolve) => {
    const chunks: Buffer[] = []
    let bytes = 0
    let status: number | null = null
    let retryAfter: string | undefined
    let isSettled = false
    let controller: Dispatcher.DispatchController | null = null

    const end = (error: string): void => {
      if (isSettled) return
      isSettled = true
      clearTimeout(timer)
      resolve({ status, answer: textOf(chunks), retryAfter, error: status === null ? error : null })
    }
    /** Ends before the answer is complete, so the connection is closed. */
    const abortWith = (error: string): void => {
      end(error)
      controller?.abort(new Error(error))
    }
    const timer = setTimeout(abortWith, timeoutMs, 'timed out')

    agent.dispatch(request, {
      onRequestStart: (started) => {
        // The time limit passed before there was a connection. Nothing is sent.
        if (isSettled) started.abort(new Error('timed out'))
        else controller = started
      },
      onResponseStart: (_controller, statusCode, headers) => {
        if (statusCode < 200) return
        status = statusCode
        const header = headers['retry-after']
        retryAfter = Array.isArray(header) ? header[0] : header
      },
      onResponseData: (_controller, chunk) => {
        if (bytes < maxAnswerBytes) chunks.push(chunk.subarray(0, maxAnswerBytes - bytes))
        bytes += chunk.length
        if (bytes > readBytes) abortWith('too long')
      },
      onResponseEnd: () => end('no answer'),
      onResponseError: (_controller, error) => end(reasonOf(error)),
    })
  })

/** Sends webhooks over HTTP/1.1 with persistent connections. */
export const createSender = (options: SenderOptions): Sender => {
  const { timeoutMs = 10_000 } = options
  /** Receivers that may have an open connection, which they can close while the next request is on its way. */
  const answered = new LRUCache<string, true>({ max: maxReceivers, ttl: maxKeepAliveMs })
  const agent: Dispatcher = new Agent({
    connect: guardedConnector({ ...options, timeoutMs }),
    // Unlimited: many endpoints may share a host, and one of them must not delay the others. Leases bound each
    // endpoint.
    connections: null,
    allowH2: false,
    pipelining: 1,
    keepAliveTimeout: 10_000,
    keepAliveMaxTimeout: maxKeepAliveMs,
    // Each exchange has its own time limit, from name resolution to the end of the answer.
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: 16_384,
  })
  return {
    send: async (url, { body, headers }) => {
      const { origin, pathname, search } = new URL(url)
      const request = { origin, path: `${pathname}${search}`, method: 'POST', headers, body } as const
      const startedMs = performance.now()
      let attempted = await exchange(agent, request, timeoutMs)
      // The receiver closed an idle connection. On a new one this is the same attempt.
      if (attempted.error === closedEarly && answered.delete(origin))
        attempted = await exchange(agent, request, timeoutMs - (performance.now() - startedMs))
      if (attempted.status !== null) answered.set(origin, true)
      return attempted
    },
    close: () => agent.destroy(),
  }
}

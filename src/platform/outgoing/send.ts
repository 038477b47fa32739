import { Agent, fetch, type Response } from 'undici'
import { guardedConnector, systemConnector } from './connector.ts'
import { createResolve, parseTarget, type Resolve, type TargetRules } from './target.ts'

/** Sends one request. Rejects on a network fault, a timeout, a redirect, or a target that is not allowed. */
export type Send = (
  url: string,
  init?: {
    readonly method?: string
    readonly headers?: Readonly<Record<string, string>>
    readonly body?: string
    /** Aborts the request, even during its answer. */
    readonly signal?: AbortSignal
  },
) => Promise<{ readonly status: number; readonly headers: Headers; text(): Promise<string> }>

export type Outgoing = { readonly send: Send; close(): Promise<void> }

/** Time limits of a connection and of a whole request in milliseconds, and the most bytes of a decompressed answer. */
export type SendLimits = {
  readonly connectMs: number
  readonly requestMs: number
  readonly responseBytes: number
}

/** The limits for payment servers and bots. */
const defaultLimits: SendLimits = { connectMs: 5_000, requestMs: 10_000, responseBytes: 2_097_152 }

/** Logs show its `code`. */
class AnswerTooLarge extends Error {
  override readonly name = 'AnswerTooLarge'
  readonly code = 'answer_too_large'
}

/**
 * The body as text. Its bytes are counted after decompression: a few hundred compressed bytes may contain gigabytes,
 * and the agent's own limit counts the received bytes.
 * @throws AnswerTooLarge above the limit, before more is read
 */
const textOf = async ({ body }: Pick<Response, 'body'>, maxBytes: number): Promise<string> => {
  const chunks: Uint8Array[] = []
  let size = 0
  // An early exit from the loop closes the connection.
  for await (const chunk of body ?? []) {
    size += chunk.length
    if (size > maxBytes) throw new AnswerTooLarge(`an answer of more than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  return new TextDecoder().decode(Buffer.concat(chunks))
}

const sender = (agent: Agent, limits: SendLimits, check: (url: string) => unknown): Outgoing => ({
  send: async (url, { signal, ...init } = {}) => {
    check(url)
    const timeoutSignal = AbortSignal.timeout(limits.requestMs)
    const response = await fetch(url, {
      ...init,
      dispatcher: agent,
      redirect: 'error',
      signal: signal === undefined ? timeoutSignal : AbortSignal.any([timeoutSignal, signal]),
    })
    return {
      status: response.status,
      headers: response.headers as Headers,
      text: () => textOf(response, limits.responseBytes),
    }
  },
  close: () => agent.destroy(),
})

/**
 * For addresses that a reseller chose, such as its payment server or bot: only https to public addresses, with the
 * rules and the connector of webhook receivers.
 */
export const publicOutgoing = ({
  resolve = createResolve(),
  rules = { allowLoopback: false },
  limits = defaultLimits,
}: {
  readonly resolve?: Resolve
  readonly rules?: TargetRules
  readonly limits?: SendLimits
} = {}): Outgoing =>
  sender(
    new Agent({
      connect: guardedConnector({ resolve, rules, timeoutMs: limits.connectMs }),
      allowH2: false,
      maxResponseSize: limits.responseBytes,
    }),
    limits,
    (url) => parseTarget(url, rules),
  )

/** For one origin that the operator chose, also in a private network, and for no other. */
export const originOutgoing = (
  baseUrl: string,
  {
    limits = defaultLimits,
    called = 'the server',
  }: { readonly limits?: SendLimits; readonly called?: string } = {},
): Outgoing => {
  const { origin } = new URL(baseUrl)
  return sender(new Agent({ connect: systemConnector(limits.connectMs), allowH2: false }), limits, (url) => {
    if (new URL(url).origin !== origin) throw new Error(`${url} is not ${called} at ${origin}`)
  })
}

/** For the sandbox servers of this installation only. */
export const sandboxOutgoing = (baseUrl: string, limits: SendLimits = defaultLimits): Outgoing =>
  originOutgoing(baseUrl, { limits, called: 'the sandbox' })

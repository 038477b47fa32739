import { Agent, fetch, type Response } from 'undici'
import { guardedConnector, systemConnector } from './connector.ts'
import { createResolve, parseTarget, type Resolve, type TargetRules } from './target.ts'

/** Sends one request; rejects on a network fault, a time-out, a redirect, or a target that is not allowed. */
export type Send = (
  url: string,
  init?: {
    readonly method?: string
    readonly headers?: Readonly<Record<string, string>>
    readonly body?: string
    /** Ends it early, in the middle of its answer too. */
    readonly signal?: AbortSignal
  },
) => Promise<{ readonly status: number; readonly headers: Headers; text(): Promise<string> }>

export type Outgoing = { readonly send: Send; close(): Promise<void> }

/** How long a connection and a whole request may take, and how much an answer may hold once it is unpacked. */
export type SendLimits = {
  readonly connectMs: number
  readonly requestMs: number
  readonly responseBytes: number
}

/** Of payment servers and bots. */
const usual: SendLimits = { connectMs: 5_000, requestMs: 10_000, responseBytes: 2_097_152 }

/** Its `code` is what a log says of it. */
class AnswerTooLarge extends Error {
  override readonly name = 'AnswerTooLarge'
  readonly code = 'answer_too_large'
}

/**
 * The body as text, counted as it is unpacked: a few hundred packed bytes may hold gigabytes, and the agent's own bound
 * counts those that came over the wire.
 * @throws AnswerTooLarge above the limit, before more of it is read
 */
const textOf = async ({ body }: Pick<Response, 'body'>, maxBytes: number): Promise<string> => {
  const chunks: Uint8Array[] = []
  let size = 0
  // Leaving the loop ends the connection.
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
    const late = AbortSignal.timeout(limits.requestMs)
    const response = await fetch(url, {
      ...init,
      dispatcher: agent,
      redirect: 'error',
      signal: signal === undefined ? late : AbortSignal.any([late, signal]),
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
 * To addresses that somebody else chose, a reseller's payment server or bot: https to public addresses, by the rule and
 * the connector of webhook receivers.
 */
export const publicOutgoing = ({
  resolve = createResolve(),
  rules = { allowLoopback: false },
  limits = usual,
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

/** To one origin that the operator chose, in a private network too, and nowhere else. */
export const originOutgoing = (
  baseUrl: string,
  { limits = usual, called = 'the server' }: { readonly limits?: SendLimits; readonly called?: string } = {},
): Outgoing => {
  const { origin } = new URL(baseUrl)
  return sender(new Agent({ connect: systemConnector(limits.connectMs), allowH2: false }), limits, (url) => {
    if (new URL(url).origin !== origin) throw new Error(`${url} is not ${called} at ${origin}`)
  })
}

/** To the stand-ins of this installation, and nowhere else. */
export const sandboxOutgoing = (baseUrl: string, limits: SendLimits = usual): Outgoing =>
  originOutgoing(baseUrl, { limits, called: 'the sandbox' })

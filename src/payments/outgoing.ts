import { lookup } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { Agent, fetch } from 'undici'
import { isAllowedAddress, parseTarget, type TargetRules } from '../webhooks/target.ts'

/** Sends one request; rejects on a network fault, a time-out, a redirect, or a target that is not allowed. */
export type Send = (
  url: string,
  init?: {
    readonly method?: string
    readonly headers?: Readonly<Record<string, string>>
    readonly body?: string
  },
) => Promise<{ readonly status: number; readonly headers: Headers; text(): Promise<string> }>

export type Outgoing = { readonly send: Send; close(): Promise<void> }

const requestTimeoutMs = 10_000
const connectTimeoutMs = 5_000
const maxResponseBytes = 2_097_152

const rules: TargetRules = { allowLoopback: false }

/** Looks a name up and gives only public addresses on: what is connected to is what was checked. */
const publicLookup: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    const open = (addresses ?? []).filter(({ address }) => isAllowedAddress(address, rules))
    const first = open[0]
    if (error || first === undefined) {
      callback(
        error ?? Object.assign(new Error(`${hostname} has no public address`), { code: 'EPRIVATE' }),
        [],
      )
      return
    }
    if (options.all) callback(null, open)
    else callback(null, first.address, first.family)
  })
}

/** The rule of webhook receivers (`src/webhooks/target.ts`); a literal address is checked here, since it skips the lookup. */
const refuseTarget = (url: string): void => {
  parseTarget(url, rules)
}

const sender = (agent: Agent, check: (url: string) => void): Outgoing => ({
  send: async (url, init = {}) => {
    check(url)
    const response = await fetch(url, {
      ...init,
      dispatcher: agent,
      redirect: 'error',
      signal: AbortSignal.timeout(requestTimeoutMs),
    })
    return { status: response.status, headers: response.headers as Headers, text: () => response.text() }
  },
  close: () => agent.destroy(),
})

/** To real providers: https to public addresses, checked on the address that is really connected to. */
export const publicOutgoing = (): Outgoing =>
  sender(
    new Agent({
      connect: { lookup: publicLookup, timeout: connectTimeoutMs },
      maxResponseSize: maxResponseBytes,
    }),
    refuseTarget,
  )

/** To the stand-ins of this installation, and nowhere else. */
export const sandboxOutgoing = (baseUrl: string): Outgoing => {
  const { origin } = new URL(baseUrl)
  return sender(new Agent({ connect: { timeout: connectTimeoutMs } }), (url) => {
    if (new URL(url).origin !== origin) throw new Error(`${url} is not the sandbox at ${origin}`)
  })
}

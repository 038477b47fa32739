import { setTimeout as sleep } from 'node:timers/promises'
import type { Switches } from './invoice.ts'

/** A signed callback: its body and headers. */
export type SignedCallback = { readonly body: string; readonly headers: Readonly<Record<string, string>> }

/** An unsigned callback. Each attempt gets a new signature, as at the real providers. */
export type PendingCallback = {
  readonly url: string
  sign(nowMs: number): SignedCallback
  /** The callback with a signature of another secret. */
  forge(nowMs: number): SignedCallback
  /** The callback with other values and a valid signature. */
  lie(nowMs: number): SignedCallback
}

export type CallbackSender = {
  /** Sends in the background, with the current fault switches. */
  send(outgoing: PendingCallback): void
  /** Resolves when no callback is in progress. */
  idle(): Promise<void>
  /** Cancels all callbacks in progress. */
  stop(): void
}

/** Delays of the retries of a failed callback, milliseconds. After the last retry it is lost, as at a real provider. */
const retryMs = [200, 400, 800, 1_600, 3_200, 6_400]
const answerMs = 5_000

export const createCallbackSender = (dependencies: {
  readonly clock: () => number
  readonly random: () => number
  readonly switches: () => Switches
  readonly say: (what: string) => void
}): CallbackSender => {
  const { clock, random, switches, say } = dependencies
  const stopController = new AbortController()
  const pending = new Set<Promise<void>>()

  const post = async (url: string, { body, headers }: SignedCallback): Promise<number> => {
    const response = await fetch(url, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json', ...headers },
      signal: AbortSignal.any([stopController.signal, AbortSignal.timeout(answerMs)]),
    })
    await response.arrayBuffer()
    return response.status
  }

  const deliver = async (url: string, createCallback: () => SignedCallback): Promise<void> => {
    for (const pauseMs of [...retryMs, null]) {
      try {
        const status = await post(url, createCallback())
        if (status < 300) return
        if (status < 500 && status !== 408 && status !== 429) return say(`a callback was answered ${status}`)
      } catch (error) {
        if (stopController.signal.aborted) return
        say(`a callback did not arrive: ${(error as Error).message}`)
      }
      if (pauseMs !== null) await sleep(pauseMs, undefined, { signal: stopController.signal })
    }
  }

  const deliverAll = async (outgoing: PendingCallback): Promise<void> => {
    const { lost, repeats, reorderMs, slowMs, forged, lying } = switches()
    const { url } = outgoing
    const copies = Array.from({ length: 1 + repeats }, async () => {
      if (random() < lost) return
      const waitMs = slowMs + Math.floor(random() * reorderMs)
      if (waitMs > 0) await sleep(waitMs, undefined, { signal: stopController.signal })
      if (forged) {
        await post(url, { body: outgoing.sign(clock()).body, headers: {} }).catch(() => 0)
        await post(url, outgoing.forge(clock())).catch(() => 0)
      }
      await deliver(url, () => outgoing.sign(clock()))
      if (lying) await deliver(url, () => outgoing.lie(clock()))
    })
    await Promise.all(copies)
  }

  return {
    send: (outgoing) => {
      const delivery = deliverAll(outgoing)
        .catch(() => undefined) // stopped meanwhile
        .finally(() => pending.delete(delivery))
      pending.add(delivery)
    },
    idle: async () => {
      while (pending.size > 0) await Promise.all(pending)
    },
    stop: () => stopController.abort(),
  }
}

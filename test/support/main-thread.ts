import { createHook, executionAsyncId } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { IncomingMessage } from 'node:http'
import { PerformanceObserver } from 'node:perf_hooks'
import { setImmediate as turn } from 'node:timers/promises'

type Stretch = { readonly request: string; heldMs: number; readonly fromMs: number; toMs: number }
type Owner = { readonly request: string; turn: number; stretch: Stretch | null }
/** A callback that runs; `owner` is the request that it works for, and null inside another of the same. */
type Frame = { readonly owner: Owner | null; readonly wallMs: number; readonly cpuMs: number }

/**
 * Ten times the time of a request on an idle machine, so that other work on it fails no test. An expression
 * or a loop that grows faster than its input takes seconds. `farebox_http_main_thread_longest_seconds`
 * measures the real time of requests.
 */
export const mostHeldMs = 500

/** Shorter ones are ignored. */
const worthMs = 10

export const threadCpuMs = (): number => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

/**
 * Measures how long the requests of the server on this port hold the main thread in one go: all that one turn of the event
 * loop does for a request, in whichever callbacks, from its headers to its answer. It counts the CPU time of the thread, so
 * that a busy machine makes nothing longer, and leaves out the garbage of everybody that is collected meanwhile. The server
 * runs in this process.
 */
export const watchMainThread = (port: number) => {
  const owners = new Map<number, Owner>()
  const frames: Frame[] = []
  const long: Stretch[] = []
  const collections: { readonly fromMs: number; readonly toMs: number }[] = []
  let turns = 0
  let isTurnWatched = false
  /** Immediates run once a turn of the event loop. */
  const watchTurn = (): void => {
    if (isTurnWatched) return
    isTurnWatched = true
    setImmediate(() => {
      turns += 1
      isTurnWatched = false
    })
  }

  const inner = (): Owner | null => frames.findLast(({ owner }) => owner !== null)?.owner ?? null

  const count = ({ owner, wallMs, cpuMs: startedMs }: Frame): void => {
    if (owner === null) return
    const toMs = performance.now()
    if (owner.turn !== turns) owner.stretch = null
    owner.turn = turns
    owner.stretch ??= { request: owner.request, heldMs: 0, fromMs: wallMs, toMs }
    const before = owner.stretch.heldMs
    owner.stretch.heldMs += Math.min(toMs - wallMs, threadCpuMs() - startedMs)
    owner.stretch.toMs = toMs
    if (before < worthMs && owner.stretch.heldMs >= worthMs) long.push(owner.stretch)
  }
  const hook = createHook({
    init: (id) => {
      const owner = inner() ?? owners.get(executionAsyncId())
      if (owner) owners.set(id, owner)
    },
    before: (id) => {
      const owner = inner() === null ? (owners.get(id) ?? null) : null
      if (owner !== null) watchTurn()
      frames.push({ owner, wallMs: performance.now(), cpuMs: owner === null ? 0 : threadCpuMs() })
    },
    after: () => {
      const frame = frames.pop()
      if (frame) count(frame)
    },
    destroy: (id) => void owners.delete(id),
  })
  const begin = (message: unknown): void => {
    const { request } = message as { request: IncomingMessage }
    if (request.socket.localPort !== port) return
    const owner = { request: `${request.method} ${request.url?.slice(0, 200)}`, turn: turns, stretch: null }
    owners.set(executionAsyncId(), owner)
    watchTurn()
    const frame = frames.pop()
    if (frame) frames.push({ owner, wallMs: performance.now(), cpuMs: threadCpuMs() })
  }
  const note = (entries: readonly { readonly startTime: number; readonly duration: number }[]): void => {
    for (const { startTime, duration } of entries)
      collections.push({ fromMs: startTime, toMs: startTime + duration })
  }
  const collected = new PerformanceObserver((list) => note(list.getEntries()))
  collected.observe({ entryTypes: ['gc'] })
  subscribe('http.server.request.start', begin)
  hook.enable()

  const withoutGarbage = ({ request, heldMs, fromMs, toMs }: Stretch) => {
    const garbageMs = collections.reduce(
      (sum, each) => sum + Math.max(0, Math.min(each.toMs, toMs) - Math.max(each.fromMs, fromMs)),
      0,
    )
    // On a busy machine a collection takes longer than its CPU time, in the same proportion as the stretch.
    return { request, heldMs: heldMs * (1 - garbageMs / Math.max(toMs - fromMs, garbageMs, 1)) }
  }
  return {
    /** Ends the measuring. @returns the requests that held the thread for longest, the longest first */
    stop: async (): Promise<readonly { readonly request: string; readonly heldMs: number }[]> => {
      await turn()
      hook.disable()
      unsubscribe('http.server.request.start', begin)
      note(collected.takeRecords())
      collected.disconnect()
      return long.map(withoutGarbage).sort((a, b) => b.heldMs - a.heldMs)
    },
  }
}

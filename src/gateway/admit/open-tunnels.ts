import { sessionLimitReached } from '../authenticate/denials.ts'
import type { Denied, Spending } from '../gateway-ports.ts'
import { createAbortHandlers } from '../relay/cuts.ts'
import type { Usage } from './record-usage.ts'
import type { SessionCap } from './session-caps.ts'

/** An admitted tunnel. */
export type Tunnel = {
  /**
   * The plan's spending. It ends when this tunnel is cut, and while the tunnel is open, also when the plan's spending
   * ends.
   */
  readonly spending: Spending
  /** Aborted when the plan's spending ends. */
  readonly planEnded: AbortSignal
  /** Cuts this tunnel. */
  terminate(denied: Denied): void
  /** Bytes since the last call. */
  passed(): { readonly up: number; readonly down: number }
  /** All bytes of this tunnel. */
  total(): number
}

/** Counts the bytes of one tunnel and enforces the cap of its session. */
export const createTunnel = (spending: Spending, cap: SessionCap | null): Tunnel => {
  const own = new AbortController()
  const fresh = { up: 0, down: 0 }
  let total = 0
  const count = (bytes: number, direction: 'up' | 'down'): void => {
    fresh[direction] += bytes
    total += bytes
  }
  return {
    planEnded: spending.ended,
    terminate: (denied) => own.abort(denied),
    passed: () => {
      const { up, down } = fresh
      fresh.up = 0
      fresh.down = 0
      return { up, down }
    },
    total: () => total,
    spending: {
      ended: own.signal,
      take: (wanted, direction) => {
        const allowed = cap === null ? wanted : cap.take(wanted)
        const bytes = spending.take(allowed, direction)
        if (cap !== null && bytes < allowed) cap.giveBack(allowed - bytes)
        count(bytes, direction)
        return bytes
      },
      giveBack: (bytes, direction) => {
        cap?.giveBack(bytes)
        spending.giveBack(bytes, direction)
        count(-bytes, direction)
      },
      more: async (wanted = 1, least = 1) => {
        if (cap !== null && !(await cap.lease(Math.max(1, least)))) return sessionLimitReached
        return spending.more(wanted, least)
      },
    },
  }
}

/** The open tunnels of this process, by plan. */
export type OpenTunnels = {
  /**
   * Reserves a slot for a tunnel that is about to open, so that concurrent attempts do not all find the last slot free.
   * @returns a function that releases the slot: call it when the tunnel is added or fails; null: `most` slots are in
   * use
   */
  claim(planId: string, most: number): (() => void) | null
  add(planId: string, generation: number, tunnel: Tunnel): void
  remove(planId: string, tunnel: Tunnel): void
  /** Cuts the tunnels of a plan whose credential generation passes the test. */
  terminate(planId: string, which: (generation: number) => boolean, denied: Denied): void
  /** Adds the bytes since the last report to the statistics. */
  report(usage: Pick<Usage, 'traffic'>): void
}

export const createOpenTunnels = (): OpenTunnels => {
  const plans = new Map<string, Map<Tunnel, number>>()
  const claims = new Map<string, number>()
  const claimed = (planId: string): number => claims.get(planId) ?? 0
  const abortHandlers = createAbortHandlers()
  // `AbortSignal.any` would leak a kilobyte per tunnel into the signal of its plan.
  const uncuts = new WeakMap<Tunnel, () => void>()
  return {
    claim: (planId, most) => {
      if ((plans.get(planId)?.size ?? 0) + claimed(planId) >= most) return null
      claims.set(planId, claimed(planId) + 1)
      return () => {
        const left = claimed(planId) - 1
        if (left === 0) claims.delete(planId)
        else claims.set(planId, left)
      }
    },
    add: (planId, generation, tunnel) => {
      const open = plans.get(planId) ?? new Map<Tunnel, number>()
      plans.set(planId, open.set(tunnel, generation))
      uncuts.set(tunnel, abortHandlers.on(tunnel.planEnded, tunnel.terminate))
    },
    remove: (planId, tunnel) => {
      const open = plans.get(planId)
      open?.delete(tunnel)
      uncuts.get(tunnel)?.()
      if (open?.size === 0) plans.delete(planId)
    },
    terminate: (planId, which, denied) => {
      for (const [tunnel, generation] of plans.get(planId) ?? [])
        if (which(generation)) tunnel.terminate(denied)
    },
    report: (usage) => {
      for (const [planId, open] of plans)
        for (const tunnel of open.keys()) {
          const { up, down } = tunnel.passed()
          if (up + down !== 0) usage.traffic(planId, up, down)
        }
    },
  }
}

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
  const ownController = new AbortController()
  const unreported = { up: 0, down: 0 }
  let total = 0
  const count = (bytes: number, direction: 'up' | 'down'): void => {
    unreported[direction] += bytes
    total += bytes
  }
  return {
    planEnded: spending.ended,
    terminate: (denied) => ownController.abort(denied),
    passed: () => {
      const { up, down } = unreported
      unreported.up = 0
      unreported.down = 0
      return { up, down }
    },
    total: () => total,
    spending: {
      ended: ownController.signal,
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
   * @returns a function that releases the slot: call it when the tunnel is added or fails; null: `maxSlots` slots are
   * in use
   */
  claim(planId: string, maxSlots: number): (() => void) | null
  add(planId: string, generation: number, tunnel: Tunnel): void
  remove(planId: string, tunnel: Tunnel): void
  /** Cuts the tunnels of a plan whose credential generation passes the test. */
  terminate(planId: string, matches: (generation: number) => boolean, denied: Denied): void
  /** Adds the bytes since the last report to the statistics. */
  report(usage: Pick<Usage, 'traffic'>): void
}

export const createOpenTunnels = (): OpenTunnels => {
  const plans = new Map<string, Map<Tunnel, number>>()
  const claimCounts = new Map<string, number>()
  const claimedSlots = (planId: string): number => claimCounts.get(planId) ?? 0
  const abortHandlers = createAbortHandlers()
  // `AbortSignal.any` would leak a kilobyte per tunnel into the signal of its plan.
  const handlerRemovals = new WeakMap<Tunnel, () => void>()
  return {
    claim: (planId, maxSlots) => {
      if ((plans.get(planId)?.size ?? 0) + claimedSlots(planId) >= maxSlots) return null
      claimCounts.set(planId, claimedSlots(planId) + 1)
      return () => {
        const remaining = claimedSlots(planId) - 1
        if (remaining === 0) claimCounts.delete(planId)
        else claimCounts.set(planId, remaining)
      }
    },
    add: (planId, generation, tunnel) => {
      const planTunnels = plans.get(planId) ?? new Map<Tunnel, number>()
      plans.set(planId, planTunnels.set(tunnel, generation))
      handlerRemovals.set(tunnel, abortHandlers.on(tunnel.planEnded, tunnel.terminate))
    },
    remove: (planId, tunnel) => {
      const planTunnels = plans.get(planId)
      planTunnels?.delete(tunnel)
      handlerRemovals.get(tunnel)?.()
      if (planTunnels?.size === 0) plans.delete(planId)
    },
    terminate: (planId, matches, denied) => {
      for (const [tunnel, generation] of plans.get(planId) ?? [])
        if (matches(generation)) tunnel.terminate(denied)
    },
    report: (usage) => {
      for (const [planId, planTunnels] of plans)
        for (const tunnel of planTunnels.keys()) {
          const { up, down } = tunnel.passed()
          if (up + down !== 0) usage.traffic(planId, up, down)
        }
    },
  }
}

import type { SessionCap } from '../budget/session-caps.ts'
import type { Usage } from '../budget/usage.ts'
import type { Denied, Spending } from '../proxy/ports.ts'
import { sessionLimitReached } from './denials.ts'

/** One tunnel that was let in. */
export type Tunnel = {
  /** The plan's spending, cut off also when this tunnel alone is. */
  readonly spending: Spending
  /** Cuts this tunnel. */
  cut(denied: Denied): void
  /** What it passed since it was last asked. */
  passed(): { readonly up: number; readonly down: number }
  /** All that it passed. */
  total(): number
}

/** Counts what one tunnel passes, and holds it to the cap of its session. */
export const createTunnel = (spending: Spending, cap: SessionCap | null): Tunnel => {
  const own = new AbortController()
  const fresh = { up: 0, down: 0 }
  let total = 0
  const count = (bytes: number, direction: 'up' | 'down'): void => {
    fresh[direction] += bytes
    total += bytes
  }
  return {
    cut: (denied) => own.abort(denied),
    passed: () => {
      const { up, down } = fresh
      fresh.up = 0
      fresh.down = 0
      return { up, down }
    },
    total: () => total,
    spending: {
      ended: AbortSignal.any([spending.ended, own.signal]),
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
      more: async () => (cap?.spent() ? sessionLimitReached : spending.more()),
    },
  }
}

/** The tunnels of this process that are open, by their plan. */
export type OpenTunnels = {
  of(planId: string): number
  add(planId: string, generation: number, tunnel: Tunnel): void
  remove(planId: string, tunnel: Tunnel): void
  /** Cuts those of a plan whose credential's generation the test accepts. */
  cut(planId: string, which: (generation: number) => boolean, denied: Denied): void
  /** Tells the statistics what passed since the last time. */
  tell(usage: Pick<Usage, 'traffic'>): void
}

export const createOpenTunnels = (): OpenTunnels => {
  const plans = new Map<string, Map<Tunnel, number>>()
  return {
    of: (planId) => plans.get(planId)?.size ?? 0,
    add: (planId, generation, tunnel) => {
      const open = plans.get(planId) ?? new Map<Tunnel, number>()
      plans.set(planId, open.set(tunnel, generation))
    },
    remove: (planId, tunnel) => {
      const open = plans.get(planId)
      open?.delete(tunnel)
      if (open?.size === 0) plans.delete(planId)
    },
    cut: (planId, which, denied) => {
      for (const [tunnel, generation] of plans.get(planId) ?? []) if (which(generation)) tunnel.cut(denied)
    },
    tell: (usage) => {
      for (const [planId, open] of plans)
        for (const tunnel of open.keys()) {
          const { up, down } = tunnel.passed()
          if (up + down !== 0) usage.traffic(planId, up, down)
        }
    },
  }
}

import type { Probe } from '../http/health.ts'
import type { Route } from '../http/route.ts'
import type { ConsolePage } from '../ui/page.ts'
import type { Workers } from '../work/queue-workers.ts'

export type Running = { stop(): Promise<void> }

/** Starts one worker of a feature, after the tables that it reads exist. */
export type StartWorker = (started: { readonly workers: Workers }) => Running

/**
 * The contribution of a feature to a server. `open(core, needs)` in its `feature.ts` returns it. `needs` are the
 * feature's settings and the services of earlier features. Opening starts no work.
 *
 * Three more parts of a feature do not need a core, so they are in other files next to `feature.ts`: the commands of
 * the program (`commands.ts`), the migrations (`migrations.ts`) and the tables of its queues (`index.ts`).
 */
export type Feature = {
  /** In the order of the interface description. */
  readonly routes?: readonly Route[]
  /** Pages of the console. */
  readonly pages?: readonly ConsolePage[]
  readonly workers?: readonly StartWorker[]
  /** The probes of `/readyz`. */
  readonly probes?: readonly Probe[]
}

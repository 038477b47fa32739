import type { Probe } from '../http/health.ts'
import type { Route } from '../http/route.ts'
import type { ConsolePage } from '../ui/page.ts'
import type { Workers } from '../work/queue-workers.ts'

export type Running = { stop(): Promise<void> }

/** Starts one worker of a feature, once the tables are made that it reads from. */
export type StartWorker = (started: { readonly workers: Workers }) => Running

/**
 * What a feature adds to a server. `open(core, needs)` of its `feature.ts` gives one: `needs` are its own settings and
 * the services of features before it. Opening starts no work.
 *
 * Three more things belong to a feature. They exist without a core, so they are files beside `feature.ts`: the commands of
 * the program (`commands.ts`), the migrations (`migrations.ts`) and the tables of its queues (`index.ts`).
 */
export type Feature = {
  /** In the order of the interface description. */
  readonly routes?: readonly Route[]
  /** Pages of the console. */
  readonly pages?: readonly ConsolePage[]
  readonly workers?: readonly StartWorker[]
  /** What `/readyz` asks. */
  readonly probes?: readonly Probe[]
}

import type { MonotonicClock } from '../../kernel/clock.ts'
import type { Deadlines } from '../../kernel/deadlines.ts'
import type { Dial } from './dial/dial.ts'
import type { OnFault } from './faults.ts'
import type { GatewayLogger } from './gateway-logger.ts'
import type { Limits } from './limits.ts'
import type { ProxyMetrics } from './metrics.ts'
import type { Access, Exits } from './ports.ts'
import type { Cuts } from './relay/cuts.ts'
import type { Resolve } from './targets/resolve.ts'
import type { TargetRules } from './targets/rules.ts'

/** What every connection of a gateway shares. */
export type Context = {
  readonly access: Access
  readonly exits: Exits
  readonly dial: Dial
  readonly resolve: Resolve
  readonly rules: TargetRules
  readonly limits: Limits
  readonly metrics: ProxyMetrics
  readonly logger: GatewayLogger
  readonly clock: MonotonicClock
  readonly deadlines: Deadlines
  readonly cuts: Cuts
  readonly onFault: OnFault
}

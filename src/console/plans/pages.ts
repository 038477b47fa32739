import type { ConsolePage } from '../pages/page.ts'
import type { PlanPagesDeps } from './deps.ts'
import { linePages } from './lines.ts'
import { planListPages } from './list.ts'
import { onePlanPages } from './one.ts'
import { planTopUpPages } from './top-up.ts'
import { whitelistPages } from './whitelist.ts'

/** Plans: what is left of each, its lines, its whitelist, its usage and its top-up. */
export const planPages = (deps: PlanPagesDeps): readonly ConsolePage[] => [
  ...planListPages(deps),
  ...onePlanPages(deps),
  ...linePages(deps),
  ...whitelistPages(deps),
  ...planTopUpPages(deps),
]

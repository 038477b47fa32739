import type { ConsolePage } from '../pages/page.ts'
import { accountPages } from './accounts.ts'
import { operatorCataloguePages } from './catalogue.ts'
import type { OperatorDeps } from './deps.ts'
import { exitPages } from './exits.ts'
import { gatewayPages } from './gateways.ts'
import { operatorNoticePages } from './notices.ts'
import { orderPages } from './orders.ts'
import { projectionPages } from './projections.ts'
import { proposalPages } from './proposals.ts'
import { queuePages } from './queues.ts'
import { searchPages } from './search.ts'
import { stockPages } from './stock.ts'
import { stockingPages } from './stocking.ts'
import { systemPages } from './system.ts'

/** The pages of operators, in the order of the navigation. */
export const operatorPages = (deps: OperatorDeps): readonly ConsolePage[] => [
  ...searchPages(deps),
  ...accountPages(deps),
  ...orderPages(deps),
  ...proposalPages(deps),
  ...operatorCataloguePages(deps),
  ...stockPages(deps),
  ...stockingPages(deps),
  ...exitPages(deps),
  ...gatewayPages(deps),
  ...operatorNoticePages(deps),
  ...queuePages(deps),
  ...projectionPages(deps),
  ...systemPages(deps),
]

import type { ConsolePage } from '../pages/page.ts'
import { resellerCustomerPages } from './customers.ts'
import type { ResellerPagesDeps } from './deps.ts'
import { gatewayPages } from './gateways.ts'
import { marginPages } from './margins.ts'
import { shopPages } from './shop.ts'
import { statementPages } from './statement.ts'
import { termsPages } from './terms.ts'

/** What a reseller reconciles by: margins, customers, the statement, their terms. */
export const resellerPages = (deps: ResellerPagesDeps): readonly ConsolePage[] => [
  ...marginPages(deps),
  ...resellerCustomerPages(deps),
  ...statementPages(deps),
  ...gatewayPages(deps),
  ...shopPages(deps),
  ...termsPages(deps),
]

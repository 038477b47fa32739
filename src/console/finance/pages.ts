import type { ConsolePage } from '../pages/page.ts'
import { bookAccountPages } from './account.ts'
import { balancePages } from './balance.ts'
import type { FinanceDeps } from './deps.ts'
import { exportPages } from './exports.ts'
import { moneyPages } from './money.ts'
import { periodPages } from './periods.ts'
import { proofPages } from './proof.ts'

/** The pages of finance, in the order of the navigation: they read, and change nothing. */
export const financePages = (deps: FinanceDeps): readonly ConsolePage[] => [
  ...moneyPages(deps),
  ...balancePages(deps),
  ...bookAccountPages(deps),
  ...periodPages(deps),
  ...exportPages(deps),
  ...proofPages(deps),
]

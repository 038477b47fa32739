import type { ConsolePage } from '../pages/page.ts'
import { bookAccountPages } from './account.ts'
import { balancePages } from './balance.ts'
import { closePeriodPages } from './close-period.ts'
import type { FinanceDeps } from './deps.ts'
import { exportPages } from './exports.ts'
import { moneyPages } from './money.ts'
import { periodPages } from './periods.ts'
import { replayPages } from './replay.ts'
import { sealPages } from './seals.ts'
import { verificationPages } from './verifications.ts'

/** The pages of finance, in the order of the navigation. They change nothing but that they close months. */
export const financePages = (deps: FinanceDeps): readonly ConsolePage[] => [
  ...moneyPages(deps),
  ...balancePages(deps),
  ...bookAccountPages(deps),
  ...periodPages(deps),
  ...closePeriodPages(deps),
  ...exportPages(deps),
  ...verificationPages(deps),
  ...replayPages(deps),
  ...sealPages(deps),
]

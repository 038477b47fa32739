import type { ConsolePage } from '../pages/page.ts'
import { cataloguePages } from './catalogue.ts'
import type { CustomerDeps } from './deps.ts'
import { keyPages } from './keys.ts'
import { noticePages } from './notices.ts'
import { orderPages } from './orders.ts'
import { overviewPages } from './overview.ts'
import { topUpPages } from './top-up.ts'
import { transactionPages } from './transactions.ts'

/** The pages of an account, in the order of their navigation. */
export const customerPages = (deps: CustomerDeps): readonly ConsolePage[] => [
  ...overviewPages(deps),
  ...cataloguePages(deps),
  ...orderPages(deps),
  ...topUpPages(deps),
  ...transactionPages(deps),
  ...keyPages(deps),
  ...noticePages(deps),
]

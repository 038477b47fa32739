import { type AddressPagesDeps, addressPages } from '../console/addresses/pages.ts'
import type { CustomerDeps } from '../console/customer/deps.ts'
import { customerPages } from '../console/customer/pages.ts'
import type { FinanceDeps } from '../console/finance/deps.ts'
import { financePages } from '../console/finance/pages.ts'
import type { OperatorDeps } from '../console/operator/deps.ts'
import { operatorPages } from '../console/operator/pages.ts'
import type { ConsolePage } from '../console/pages/page.ts'
import type { PlanPagesDeps } from '../console/plans/deps.ts'
import { planPages } from '../console/plans/pages.ts'
import { type OpenPagesDeps, openPages } from '../console/public/pages.ts'
import type { ResellerPagesDeps } from '../console/reseller/deps.ts'
import { resellerPages } from '../console/reseller/pages.ts'
import { type ScraperPagesDeps, scraperPages } from '../console/scrapers/pages.ts'
import { confirmPages } from '../console/sign-in/confirm-pages.ts'
import type { SignInDeps } from '../console/sign-in/desk.ts'
import { passkeyPages } from '../console/sign-in/passkey-pages.ts'
import { sessionPages } from '../console/sign-in/session-pages.ts'
import { signInPages } from '../console/sign-in/sign-in-pages.ts'
import { timePages } from '../console/sign-in/time-pages.ts'
import { type StaffDeps, staffPages } from '../console/staff/pages.ts'
import { trailPages } from '../console/staff/trail-pages.ts'
import { type SubscriptionPagesDeps, subscriptionPages } from '../console/subscriptions/pages.ts'
import { type WebhookPagesDeps, webhookPages } from '../console/webhooks/pages.ts'

/** What the rooms of pages need. */
export type PagesDeps = {
  readonly customer: CustomerDeps
  readonly plans: Omit<PlanPagesDeps, keyof CustomerDeps>
  readonly reseller: Omit<ResellerPagesDeps, keyof CustomerDeps>
  readonly addresses: AddressPagesDeps
  readonly subscriptions: SubscriptionPagesDeps
  readonly scrapers: ScraperPagesDeps
  readonly webhooks: WebhookPagesDeps
  readonly open: OpenPagesDeps
  readonly staff: StaffDeps
  readonly operator: OperatorDeps
  readonly finance: FinanceDeps
  readonly signIn: SignInDeps
}

/** Every page of the console, in the order of its navigation. A new room of pages gets a line. */
export const consolePages = (deps: PagesDeps): readonly ConsolePage[] => [
  ...customerPages(deps.customer),
  ...planPages({ ...deps.customer, ...deps.plans }),
  ...addressPages(deps.addresses),
  ...subscriptionPages(deps.subscriptions),
  ...scraperPages(deps.scrapers),
  ...webhookPages(deps.webhooks),
  ...resellerPages({ ...deps.customer, ...deps.reseller }),
  ...staffPages(deps.staff),
  ...openPages(deps.open),
  ...trailPages(deps.operator),
  ...financePages(deps.finance),
  ...operatorPages(deps.operator),
  ...sessionPages(deps.signIn),
  ...passkeyPages(deps.signIn),
  ...confirmPages(deps.signIn),
  ...signInPages(deps.signIn),
  ...timePages,
]

import type { ConsolePage } from '../platform/ui/page.ts'
import type { Features } from './features.ts'

/** The pages of the console's navigation, by name and in order. */
const navigation = [
  // Accounts.
  'showOverview',
  'showCatalogue',
  'showOrders',
  'topUp',
  'showTransactions',
  'showKeys',
  'showNotices',
  'showPlans',
  'showAddresses',
  'showSubscriptions',
  'showScrapers',
  'showWebhooks',
  // Resellers.
  'showMargins',
  'listCustomers',
  'showStatement',
  'listGateways',
  'showTerms',
  'showStaff',
  // Public pages, without a sign-in.
  'showHome',
  'showPrices',
  'showFreeProxies',
  'showNetworks',
  'showProxyChecker',
  'showIpLookup',
  'showStatus',
  // Finance.
  'showMoney',
  'showTrialBalance',
  'showBookAccount',
  'showPeriods',
  'showExports',
  'showVerifications',
  'replayBooks',
  'showSeals',
  // Operators.
  'searchAnything',
  'listAccounts',
  'listProposals',
  'listGatewayChanges',
  'importCatalogue',
  'showStock',
  'listExits',
  'listOwnGateways',
  'listNotices',
  'listQueues',
  'showProjections',
  'showSettings',
  // All signed-in users.
  'showSessions',
  'showPasskeys',
]

const navigationIndex = ({ name, nav }: ConsolePage): number => {
  if (nav === undefined) return navigation.length
  const index = navigation.indexOf(name)
  if (index === -1) throw new Error(`the page ${name} has no place in the navigation: add it to app/pages.ts`)
  return index
}

/** Every page of the console, navigation pages first. */
export const consolePages = (features: Features): readonly ConsolePage[] =>
  Object.values(features)
    .flatMap(({ pages = [] }: { readonly pages?: readonly ConsolePage[] }) => pages)
    .sort((one, other) => navigationIndex(one) - navigationIndex(other))

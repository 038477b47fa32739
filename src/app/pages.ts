import type { NavigationGroup } from '../platform/ui/navigation.ts'
import type { ConsolePage } from '../platform/ui/page.ts'
import type { Features } from './features.ts'

/** The navigation of the console, in order: at most nine entries for each role. Visitors see the pages of their roles. */
export const navigation: readonly NavigationGroup[] = [
  { label: '', entries: [{ label: 'Home', page: 'showOverview', ofAccount: true }] },
  { label: '', entries: [{ label: 'Home of staff', page: 'showStaff', also: ['/console/view'] }] },
  {
    label: 'Reselling',
    entries: [
      {
        label: 'Sales',
        page: [
          { label: 'Margins', page: 'showMargins' },
          { label: 'Statement', page: 'showStatement' },
        ],
      },
      { label: 'Customers', page: 'listCustomers' },
      { label: 'Payment providers', page: 'listGateways' },
      { label: 'Terms', page: 'showTerms', also: ['/console/reseller/shop'] },
    ],
  },
  {
    label: 'Proxies',
    folds: true,
    entries: [
      { label: 'Catalogue', page: 'showCatalogue' },
      {
        label: 'Plans',
        page: [
          { label: 'Plans', page: 'showPlans' },
          { label: 'Subscriptions', page: 'showSubscriptions' },
          { label: 'Traffic budgets', page: 'listTrafficBudgets' },
        ],
      },
      { label: 'Addresses', page: 'showAddresses' },
      { label: 'Orders', page: 'showOrders' },
    ],
  },
  { label: 'Scraping', folds: true, entries: [{ label: 'Scrapers', page: 'showScrapers' }] },
  {
    label: 'Billing',
    entries: [
      {
        label: 'Wallet',
        page: [
          { label: 'Transactions', page: 'showTransactions' },
          { label: 'Deposits', page: 'showDeposits' },
          { label: 'Top up', page: 'topUp' },
          { label: 'Automatic top-up', page: 'autoTopup' },
        ],
      },
    ],
  },
  {
    label: 'Developers',
    folds: true,
    entries: [
      { label: 'API keys', page: 'showKeys' },
      { label: 'Webhooks', page: 'showWebhooks' },
    ],
  },
  {
    label: 'Finance',
    entries: [
      { label: 'Money', page: 'showMoney' },
      {
        label: 'Trial balance',
        page: [
          { label: 'Trial balance', page: 'showTrialBalance' },
          { label: 'Deferred revenue', page: 'showDeferredRevenue' },
        ],
      },
      {
        label: 'Ledger account',
        page: [
          { label: 'Ledger account', page: 'showBookAccount' },
          { label: 'Entries by hand', page: 'listManualEntries' },
        ],
      },
      { label: 'Periods', page: 'showPeriods' },
      { label: 'Exports', page: 'showExports' },
      {
        label: 'Verification',
        page: [
          { label: 'Verifications', page: 'showVerifications' },
          { label: 'Replay', page: 'replayBooks' },
        ],
      },
      { label: 'Seals', page: 'showSeals' },
    ],
  },
  {
    label: 'Customer service',
    entries: [
      { label: 'Accounts', page: 'listAccounts' },
      {
        label: 'Orders and payments',
        page: [
          { label: 'All orders', page: 'listAllOrders' },
          { label: 'All deposits', page: 'listAllDeposits' },
          { label: 'Disputes and refunds', page: 'listReversals' },
        ],
      },
      { label: 'Proposals', page: 'listProposals' },
      { label: 'All notices', page: 'listNotices' },
    ],
  },
  {
    label: 'Supply',
    entries: [
      { label: 'Catalogue import', page: 'importCatalogue' },
      { label: 'Stock', page: 'showStock' },
      { label: 'Exits', page: 'listExits' },
      {
        label: 'Payment gateways',
        page: [
          { label: 'Gateways', page: 'listOwnGateways' },
          { label: 'Changes at providers', page: 'listGatewayChanges' },
          { label: 'Without a deposit', page: 'listUnmatchedMovements' },
        ],
      },
    ],
  },
  {
    label: 'Operation',
    entries: [
      {
        label: 'System',
        page: [
          { label: 'Queues', page: 'listQueues' },
          { label: 'Failing webhooks', page: 'showFailingWebhooks' },
          { label: 'Projections', page: 'showProjections' },
          { label: 'Settings', page: 'showSettings' },
        ],
      },
    ],
  },
  {
    label: 'Your account',
    at: 'menu',
    entries: [
      { label: 'Notices', page: 'showNotices' },
      { label: 'Sessions', page: 'showSessions' },
      { label: 'Passkeys', page: 'showPasskeys' },
    ],
  },
  {
    label: '',
    at: 'footer',
    entries: [
      { label: 'Products', page: 'showHome' },
      { label: 'Prices', page: 'showPrices' },
      { label: 'Free proxies', page: 'showFreeProxies' },
      { label: 'Networks', page: 'showNetworks' },
      { label: 'Proxy checker', page: 'showProxyChecker' },
      { label: 'IP lookup', page: 'showIpLookup' },
      { label: 'Status', page: 'showStatus' },
    ],
  },
]

/** Every page of the console. */
export const consolePages = (features: Features): readonly ConsolePage[] =>
  Object.values(features).flatMap(({ pages = [] }: { readonly pages?: readonly ConsolePage[] }) => pages)

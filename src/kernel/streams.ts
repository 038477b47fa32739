import {
  type AccountId,
  type NoticeId,
  type OrderId,
  type PlanId,
  type ScrapeBatchId,
  type ScrapeId,
  type SubscriptionId,
  shardOfId,
} from './ids.ts'
import type { Period } from './months.ts'

/**
 * The owner of a stream: `acc_…` of `ledger-acc_…`. Kinds of streams contain no dash, so the first dash ends the kind.
 */
export const ownerOf = (stream: StreamName): string => stream.slice(stream.indexOf('-') + 1)

declare const brand: unique symbol

/** The name of a stream, e.g. `ledger-acc_…`. Only this file creates names. */
export type StreamName = string & { readonly [brand]: 'StreamName' }

/** Only this file creates stream names, because the name of a stream ensures idempotency. */
const streamName = (name: string): StreamName => name as StreamName

const processKeyPrefix = 'process-key-'

export const ledgerStream = (account: AccountId): StreamName => streamName(`ledger-${account}`)
export const webhooksStream = (account: AccountId): StreamName => streamName(`webhooks-${account}`)
/** One event per endpoint, event and resource, permanently. */
export const deliveryStream = (endpointId: string, event: string, resource: string): StreamName =>
  streamName(`delivery-${endpointId}.${event}.${resource}`)
export const accountStream = (account: AccountId): StreamName => streamName(`account-${account}`)
/** The permissions and sign-ins of a console user: an account or a staff member. */
export const consoleStream = (subjectId: string): StreamName => streamName(`console-${subjectId}`)
export const orderStream = (order: OrderId): StreamName => streamName(`order-${order}`)
export const planStream = (plan: PlanId): StreamName => streamName(`plan-${plan}`)
/** The addresses that may use the plans of an account without credentials. */
export const whitelistStream = (account: AccountId): StreamName => streamName(`whitelist-${account}`)
/** A limit for the traffic of a day, a week or a month. */
export const trafficBudgetStream = (budgetId: string): StreamName => streamName(`trafficbudget-${budgetId}`)
/** `country` is alpha-3, upper case. */
export const stockStream = (productId: string, country: string): StreamName =>
  streamName(`stock-${productId}-${country}`)
export const addressStream = (ip: string): StreamName => streamName(`address-${ip}`)
export const catalogStream: StreamName = streamName('catalog')
export const termsStream = (reseller: AccountId): StreamName => streamName(`terms-${reseller}`)
/**
 * A manual credit, so that its reference can be used only once. `depositId` is
 * `deriveId('dep', [account, 'manual', reference])`.
 */
export const depositStream = (depositId: string): StreamName => streamName(`deposit-${depositId}`)
export const subscriptionStream = (subscription: SubscriptionId): StreamName =>
  streamName(`subscription-${subscription}`)
/** A scraper call, identified by the `X-Request-Id` of an account. */
export const scrapeStream = (scrape: ScrapeId): StreamName => streamName(`scrape-${scrape}`)
/** The prices of scraper calls. */
export const scraperPricesStream: StreamName = streamName('scrapers')
/** A batch of calls of one scraper in one request. */
export const scrapeBatchStream = (batch: ScrapeBatchId): StreamName => streamName(`batch-${batch}`)
export const noticeStream = (notice: NoticeId): StreamName => streamName(`notice-${notice}`)
/** A large manual movement that one operator proposes and another approves. */
export const proposalStream = (proposalId: string): StreamName => streamName(`proposal-${proposalId}`)
/** The amounts above which manual movements need two operators. */
export const approvalLimitsStream: StreamName = streamName('foureyes')
/** The seals of the whole log and the keys that sign them. */
export const sealStream: StreamName = streamName('seal')
/** The key of one process, by its 32 bytes in hex. */
export const processKeyStream = (publicKey: string): StreamName =>
  streamName(`${processKeyPrefix}${publicKey}`)
/** The times at which processes stopped signing their appends. */
export const signingStream: StreamName = streamName('signing')
/** Whether the seal key signs every event of a stream, so that its events need no later seal. */
export const isSelfSigned = (stream: StreamName): boolean =>
  stream === sealStream || stream === signingStream || stream.startsWith(processKeyPrefix)
/** The decision about an event that violates an invariant. */
export const violationStream = (eventId: string): StreamName => streamName(`breach-${eventId}`)
/** The books of a month, `yyyy-mm`. A month is closed once and permanently. */
export const periodStream = (period: Period): StreamName => streamName(`period-${period}`)
/** A booked line of a provider's statement. A line is booked only once. */
export const statementStream = (line: string): StreamName => streamName(`statement-${line}`)
/** A movement at a payment provider without a known deposit. */
export const unmatchedStream = (item: string): StreamName => streamName(`unmatched-${item}`)
/** The automatic top-up of a wallet. */
export const topupStream = (account: AccountId): StreamName => streamName(`topup-${account}`)
/** The exits of the proxy gateway. */
export const exitsStream: StreamName = streamName('exits')
/** The commitments that an upgrade added for vault values of older releases. */
export const adoptionStream: StreamName = streamName('adoption')
/** The permissions to read the books over HTTP. */
export const financeStream: StreamName = streamName('finance')

/**
 * The log that stores a stream, once there are several logs (docs/decisions/0046): the log of its account, the log of
 * the market, or the log that the whole service shares.
 */
export type ShardKey =
  | { readonly of: 'account'; readonly log: number }
  /** All accounts compete for the same addresses, so one stream must decide for all of them. */
  | { readonly of: 'market' }
  /** Shared by all accounts, such as the catalogue, notices and accounting periods. */
  | { readonly of: 'control' }
  /** Each log has its own. */
  | { readonly of: 'each' }

/** The log of every kind of stream, by the prefix of its name. Add a line for each new kind of stream. */
const shardByPrefix: Readonly<Record<string, ShardKey['of']>> = {
  'ledger-': 'account',
  'account-': 'account',
  'console-': 'account',
  'order-': 'account',
  'plan-': 'account',
  'whitelist-': 'account',
  'trafficbudget-': 'account',
  'terms-': 'account',
  'deposit-': 'account',
  'topup-': 'account',
  'subscription-': 'account',
  'webhooks-': 'account',
  'delivery-': 'account',
  'scrape-': 'account',
  'batch-': 'account',
  'proposal-': 'account',
  'stock-': 'market',
  'address-': 'market',
  catalog: 'control',
  scrapers: 'control',
  'notice-': 'control',
  'period-': 'control',
  'statement-': 'control',
  'unmatched-': 'control',
  finance: 'control',
  adoption: 'control',
  foureyes: 'control',
  exits: 'control',
  seal: 'each',
  [processKeyPrefix]: 'each',
  signing: 'each',
  'breach-': 'each',
}

/** The prefixes of all Farebox streams, to filter a subscription on a server that stores other streams, too. */
export const streamPrefixes: readonly string[] = Object.keys(shardByPrefix)

/** The id after the prefix of a name. In the name of a delivery stream it ends at the first dot. */
const idIn = (stream: StreamName, prefix: string): string => stream.slice(prefix.length).split('.', 1)[0]!

/**
 * The shard key of a stream, from its name alone: the id of an account, or of an object of an account, contains the
 * number of its log (`shardOfId`).
 * @throws Error for a name that this file did not create
 */
export const shardKeyOf = (stream: StreamName): ShardKey => {
  const prefix = streamPrefixes.find((each) => stream.startsWith(each))
  if (prefix === undefined) throw new Error(`the stream ${stream} has no home`)
  const of = shardByPrefix[prefix]!
  return of === 'account' ? { of, log: shardOfId(idIn(stream, prefix)) } : { of }
}

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

/** Whose stream it is: `acc_…` of `ledger-acc_…`. Kinds of streams have no dash, so the first one ends the kind. */
export const ownerOf = (stream: StreamName): string => stream.slice(stream.indexOf('-') + 1)

declare const brand: unique symbol

/** The name of a stream, made here, e.g. `ledger-acc_…`. */
export type StreamName = string & { readonly [brand]: 'StreamName' }

/** Every stream of the log has a name made here: the name is the idempotency. */
const named = (name: string): StreamName => name as StreamName

const processKeyPrefix = 'process-key-'

export const ledgerStream = (account: AccountId): StreamName => named(`ledger-${account}`)
export const webhooksStream = (account: AccountId): StreamName => named(`webhooks-${account}`)
/** One event per endpoint per event per resource, for ever. */
export const deliveryStream = (endpointId: string, event: string, resource: string): StreamName =>
  named(`delivery-${endpointId}.${event}.${resource}`)
export const accountStream = (account: AccountId): StreamName => named(`account-${account}`)
/** What a person may do in the console, and how they signed in: an account, or a member of the staff. */
export const consoleStream = (subjectId: string): StreamName => named(`console-${subjectId}`)
export const orderStream = (order: OrderId): StreamName => named(`order-${order}`)
export const planStream = (plan: PlanId): StreamName => named(`plan-${plan}`)
/** Which addresses use the plans of an account without credentials. */
export const whitelistStream = (account: AccountId): StreamName => named(`whitelist-${account}`)
/** `country` is alpha-3, upper case. */
export const stockStream = (productId: string, country: string): StreamName =>
  named(`stock-${productId}-${country}`)
export const addressStream = (ip: string): StreamName => named(`address-${ip}`)
export const catalogStream: StreamName = named('catalog')
export const termsStream = (reseller: AccountId): StreamName => named(`terms-${reseller}`)
/** A manual credit; its reference is spent for ever. `depositId` is `deriveId('dep', [account, 'manual', reference])`. */
export const depositStream = (depositId: string): StreamName => named(`deposit-${depositId}`)
export const subscriptionStream = (subscription: SubscriptionId): StreamName =>
  named(`subscription-${subscription}`)
/** The call of a scraper that an account's `X-Request-Id` names. */
export const scrapeStream = (scrape: ScrapeId): StreamName => named(`scrape-${scrape}`)
/** What calls of scrapers cost. */
export const scraperPricesStream: StreamName = named('scrapers')
/** Many calls of one scraper that were asked for at once. */
export const scrapeBatchStream = (batch: ScrapeBatchId): StreamName => named(`batch-${batch}`)
export const noticeStream = (notice: NoticeId): StreamName => named(`notice-${notice}`)
/** A large movement by hand that one operator proposes and another approves. */
export const proposalStream = (proposalId: string): StreamName => named(`proposal-${proposalId}`)
/** Above which amount movements by hand take two operators. */
export const approvalLimitsStream: StreamName = named('foureyes')
/** The seals of the whole log and the keys that sign them. */
export const sealStream: StreamName = named('seal')
/** The key of one process, by its 32 bytes in hex. */
export const processKeyStream = (publicKey: string): StreamName => named(`${processKeyPrefix}${publicKey}`)
/** When the processes stopped signing what they append. */
export const signingStream: StreamName = named('signing')
/** Whether every event of a stream is signed by the key that seals, so that it needs no seal behind it. */
export const isSelfSigned = (stream: StreamName): boolean =>
  stream === sealStream || stream === signingStream || stream.startsWith(processKeyPrefix)
/** What was decided about an event that breaks a law. */
export const violationStream = (eventId: string): StreamName => named(`breach-${eventId}`)
/** The books of a month, `yyyy-mm`: it is closed once for ever. */
export const periodStream = (period: Period): StreamName => named(`period-${period}`)
/** A line of a provider's statement that was booked: once for ever. */
export const statementStream = (line: string): StreamName => named(`statement-${line}`)
/** The ways out of the proxy gateway. */
export const exitsStream: StreamName = named('exits')
/** When an upgrade committed to what older releases had put into the vault. */
export const adoptionStream: StreamName = named('adoption')
/** Who may read the books over HTTP. */
export const financeStream: StreamName = named('finance')

/**
 * Which log a stream lives in, once there are many (docs/scale.md): that of the account which owns it, the market's, or
 * the log of what the whole service shares.
 */
export type ShardKey =
  | { readonly of: 'account'; readonly log: number }
  /** Accounts compete for the same address, so one stream must decide between them all. */
  | { readonly of: 'market' }
  /** One for all accounts: what everybody is sold or told, and what closes or opens the books. */
  | { readonly of: 'control' }
  /** A log's own: each has one. */
  | { readonly of: 'each' }

/** The home of every kind of stream, by the beginning of its name. A new kind of stream gets a line. */
const homes: Readonly<Record<string, ShardKey['of']>> = {
  'ledger-': 'account',
  'account-': 'account',
  'console-': 'account',
  'order-': 'account',
  'plan-': 'account',
  'whitelist-': 'account',
  'terms-': 'account',
  'deposit-': 'account',
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
  finance: 'control',
  adoption: 'control',
  foureyes: 'control',
  exits: 'control',
  seal: 'each',
  [processKeyPrefix]: 'each',
  signing: 'each',
  'breach-': 'each',
}

/** The prefixes that are ours: the filter of a subscription on a server that holds other streams too. */
export const streamPrefixes: readonly string[] = Object.keys(homes)

/** The id that a name ends with; what follows it in the name of a delivery begins with a dot. */
const idIn = (stream: StreamName, prefix: string): string => stream.slice(prefix.length).split('.', 1)[0]!

/**
 * Read from the name alone: an id of an account, or of what belongs to one, carries its log (`shardOfId`).
 * @throws when the name was not made here
 */
export const shardKeyOf = (stream: StreamName): ShardKey => {
  const prefix = streamPrefixes.find((each) => stream.startsWith(each))
  if (prefix === undefined) throw new Error(`the stream ${stream} has no home`)
  const of = homes[prefix]!
  return of === 'account' ? { of, log: shardOfId(idIn(stream, prefix)) } : { of }
}

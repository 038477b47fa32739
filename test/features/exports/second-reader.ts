import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

/**
 * A second reader of the ledger: it knows the `jsonl` export (docs/finance/exports.md) and the table of flows, and
 * shares no code with `src/`, so that an error there is not repeated here. `test/architecture` holds it to that.
 */
export type Balances = ReadonlyMap<string, bigint>

export type SecondReading = {
  readonly events: number
  /** Micro-dollars by `{book}|{account}`: above zero a debit balance. Accounts that were ever booked on. */
  readonly balances: Balances
  /** The available micro-dollars of each account, by its last event. */
  readonly available: ReadonlyMap<string, bigint>
}

// biome-ignore lint/suspicious/noExplicitAny: facts of many shapes, read by their documented names
type Facts = any

/**
 * The change of a debt by an event, from either field. `paid`: the old field counts the paid part of the
 * debt.
 */
const debtOf = (facts: Facts, paid: boolean): number =>
  'debtChangeMicros' in facts ? facts.debtChangeMicros : facts.receivableMicros * (paid ? -1 : 1)
const walletDebtOf = (facts: Facts): number =>
  'walletDebtChangeMicros' in facts ? facts.walletDebtChangeMicros : -facts.walletReceivableMicros

/** Whether a gateway took the money, or returned it. */
const isReversal = (reason: string): boolean => reason === 'chargeback' || reason === 'deposit_refund'

type Books = (book: string, account: string, debitMicros: number) => void

/** The service's book, flow by flow. */
const bookOfService = (type: string, facts: Facts, owner: string, book: Books): void => {
  const wallet = `liabilities:wallet:${owner}`
  const holds = `liabilities:holds:${owner}`
  const debt = `assets:receivable:${owner}`
  const post = (account: string, debit: number): void => book('service', account, debit)
  switch (type) {
    case 'WalletCredited':
      if (facts.source === 'refund') post(`revenue:orders:${facts.family}`, facts.amountMicros)
      else post(`assets:gateway:${facts.gateway}`, facts.amountMicros)
      post(wallet, -debtOf(facts, true) - facts.amountMicros)
      post(debt, debtOf(facts, true))
      return
    case 'WalletAdjusted':
      if (isReversal(facts.reason)) post(`assets:gateway:${facts.gateway}`, facts.amountMicros)
      else if (facts.reason === 'bad_debt') post('expenses:bad-debts', facts.amountMicros)
      else post(`expenses:adjustments:${facts.reason}`, facts.amountMicros)
      post(debt, debtOf(facts, false))
      post(wallet, -(facts.amountMicros + debtOf(facts, false)))
      return
    case 'WalletDebited':
      post(wallet, facts.amountMicros)
      post(`revenue:orders:${facts.order.family}`, -facts.amountMicros)
      return
    case 'FundsHeld':
      post(wallet, facts.amountMicros)
      post(holds, -facts.amountMicros)
      return
    case 'HoldReleased':
      post(holds, facts.amountMicros)
      post(wallet, -facts.amountMicros - (facts.debtChangeMicros ?? 0))
      post(debt, facts.debtChangeMicros ?? 0)
      return
    case 'HoldCaptured':
      post(holds, facts.amountMicros)
      post(`revenue:scrapes:${facts.platform}`, -facts.amountMicros)
      return
    case 'CustomerCharged':
      post(wallet, facts.costMicros)
      post(`revenue:orders:${facts.order.family}`, -facts.costMicros)
      return
    case 'CustomerRefunded':
      post(`revenue:orders:${facts.family}`, facts.costMicros)
      post(wallet, -walletDebtOf(facts) - facts.costMicros)
      post(debt, walletDebtOf(facts))
      return
    case 'CustomerCredited':
    case 'CustomerAdjusted':
      return
    default:
      throw new Error(`a ledger holds ${type}, which the second reader does not know`)
  }
}

/** A reseller's own book, seen from the reseller. */
const bookOfReseller = (type: string, facts: Facts, owner: string, book: Books): void => {
  const post = (account: string, debit: number): void => book(`reseller:${owner}`, account, debit)
  const credit = `liabilities:customer:${facts.customerId}`
  const owed = `assets:receivable:customer:${facts.customerId}`
  switch (type) {
    case 'WalletCredited': {
      const arrived = facts.amountMicros + debtOf(facts, true)
      post('assets:service-wallet', arrived)
      post('liabilities:service-debt', -debtOf(facts, true))
      if (facts.source === 'refund') post('expenses:own-use', -facts.amountMicros)
      else post('equity:funding', -facts.amountMicros)
      return
    }
    case 'WalletAdjusted': {
      const moved = facts.amountMicros + debtOf(facts, false)
      post('assets:service-wallet', moved)
      post('liabilities:service-debt', -debtOf(facts, false))
      if (isReversal(facts.reason)) post('equity:funding', -facts.amountMicros)
      else post(`revenue:adjustments:${facts.reason}`, -facts.amountMicros)
      return
    }
    case 'WalletDebited':
    case 'HoldCaptured':
      post('expenses:own-use', facts.amountMicros)
      post('assets:service-wallet', -facts.amountMicros)
      return
    case 'FundsHeld':
      return
    case 'HoldReleased':
      post('assets:service-wallet', facts.debtChangeMicros ?? 0)
      post('liabilities:service-debt', -(facts.debtChangeMicros ?? 0))
      return
    case 'CustomerCredited':
      post(`assets:gateway:${facts.gateway}`, facts.amountMicros)
      post(credit, -debtOf(facts, true) - facts.amountMicros)
      post(owed, debtOf(facts, true))
      return
    case 'CustomerCharged':
      post(credit, facts.amountMicros)
      post('revenue:sales', -facts.amountMicros)
      post('expenses:cost-of-sales', facts.costMicros)
      post('assets:service-wallet', -facts.costMicros)
      return
    case 'CustomerRefunded':
      post('revenue:sales', facts.amountMicros)
      post(credit, -debtOf(facts, true) - facts.amountMicros)
      post(owed, debtOf(facts, true))
      post('assets:service-wallet', facts.costMicros + walletDebtOf(facts))
      post('expenses:cost-of-sales', -facts.costMicros)
      post('liabilities:service-debt', -walletDebtOf(facts))
      return
    case 'CustomerAdjusted': {
      const { reason, gateway, amountMicros } = facts
      if (reason === 'payment') post('assets:gateway:manual', amountMicros)
      else if (isReversal(reason)) post(`assets:gateway:${gateway}`, amountMicros)
      else post(`expenses:adjustments:${reason}`, amountMicros)
      post(owed, debtOf(facts, false))
      post(credit, -(amountMicros + debtOf(facts, false)))
      return
    }
    default:
      throw new Error(`a ledger holds ${type}, which the second reader does not know`)
  }
}

/** Reads a whole export. @throws when it is not whole: a line, the count or the digest does not fit */
export const readSecondly = (path: string): SecondReading => {
  const text = readFileSync(path, 'utf8')
  const lines = text.split('\n')
  if (lines.pop() !== '') throw new Error('the export does not end with a line break')
  const end = JSON.parse(lines.pop() ?? '')
  const body = `${lines.join('\n')}\n`
  if (createHash('sha256').update(body).digest('hex') !== end.sha256)
    throw new Error('the digest does not fit')
  if (lines.shift() !== '{"format":"farebox-log","version":1}') throw new Error('no export')
  if (lines.length !== end.events) throw new Error('the count does not fit')

  const balances = new Map<string, bigint>()
  const available = new Map<string, bigint>()
  const resellers = new Set<string>()
  const book: Books = (name, account, debitMicros) => {
    if (debitMicros === 0) return
    const key = `${name}|${account}`
    balances.set(key, (balances.get(key) ?? 0n) + BigInt(debitMicros))
  }
  for (const line of lines) {
    const { stream, type, data } = JSON.parse(line)
    const facts = JSON.parse(data)
    if (type === 'AccountCreated' && facts.reseller) resellers.add(facts.accountId)
    if (stream.startsWith('statement-')) {
      book('service', `assets:gateway:${facts.gateway}`, -facts.feeMicros)
      book('service', `assets:gateway:${facts.gateway}`, -facts.payoutMicros)
      book('service', `expenses:gateway-fees:${facts.gateway}`, facts.feeMicros)
      book('service', 'assets:bank', facts.payoutMicros)
    }
    if (!stream.startsWith('ledger-')) continue
    const owner = stream.slice('ledger-'.length)
    bookOfService(type, facts, owner, book)
    if (resellers.has(owner)) bookOfReseller(type, facts, owner, book)
    available.set(owner, BigInt(facts.availableAfterMicros))
  }
  return { events: lines.length, balances, available }
}

/** Everything that customers can know of, as plain data that is copied to try an order of events. Cents and ms. */
export type World = {
  readonly accounts: Record<string, Account>
  readonly orders: Record<string, Order>
  /** The order under each `account key`. */
  readonly byKey: Record<string, string>
  readonly plans: Record<string, Plan>
  readonly rentals: Record<string, Rental>
  /** How many addresses each pool has in all. */
  readonly pools: Record<string, number>
  /** What customers have with their reseller, by `account name`. */
  readonly customers: Record<string, Customer>
}

/** It is in the reseller's book, in addition to the wallet. */
export type Customer = {
  readonly account: string
  readonly name: string
  /** The service's id of it, once it was seen. */
  id: string | null
  creditCents: number
}

/** Of a reseller, in hundredths of a percent and in millionths. */
export type Terms = { readonly discountBp: number; readonly markupMillionths: number }

export type Movement = { readonly type: string; readonly cents: number; readonly orderId: string | null }

export type Account = {
  readonly reseller: boolean
  readonly terms: Terms | null
  blocked: boolean
  balanceCents: number
  owedCents: number
  readonly movements: Movement[]
  readonly references: string[]
  readonly keys: Record<string, Key>
}

export type Key = {
  readonly scopes: readonly string[]
  readonly capCents: number | null
  revoked: boolean
  readonly spent: { readonly atMs: number; readonly cents: number }[]
}

export type Target = {
  readonly country: string
  readonly periodDays: number
  readonly carrierId: string | null
  readonly service: string | null
  readonly rotationMinutes: number | null
}

export type Order = {
  readonly orderId: string
  readonly account: string
  readonly kind: 'order' | 'topup' | 'extension'
  readonly productId: string
  readonly quantity: number
  /** Whose credit paid it, by `account name`; null: the account's own wallet. */
  readonly customer: string | null
  /** What its payer paid. */
  readonly amountCents: number
  /** What left the wallet for it. */
  readonly costCents: number
  /** The request that a retry must repeat. */
  readonly fingerprint: string
  readonly target: Target | null
  readonly planId: string | null
  readonly proxyIds: string[]
  refundedCents: number
  refundedCostCents: number
  readonly refundedProxies: string[]
}

export type Plan = {
  readonly planId: string
  readonly account: string
  readonly productId: string
  readonly customer: string | null
  totalGb: number | null
  usedBytes: number
  /** Bytes that refunds took back. */
  takenBytes: number
  expiresAtMs: number | null
}

export type Rental = {
  readonly proxyId: string
  readonly account: string
  readonly orderId: string
  readonly productId: string
  readonly target: Target
  expiresAtMs: number
  /** The orders that extended it. */
  readonly extendedBy: string[]
  /** When the address went back; null while it is rented. */
  releasedAtMs: number | null
  /** Seen by the customer; null before the look-up. */
  ip: string | null
}

export const bytesPerGb = 1_000_000_000
export const dayMs = 24 * 60 * 60 * 1000
export const restMs = 15 * 60 * 1000

export const poolOf = (
  productId: string,
  target: Pick<Target, 'country' | 'carrierId' | 'service'>,
): string => [productId, target.country, target.carrierId ?? '', target.service ?? ''].join(' ')

/** Addresses of a pool that can be sold now: neither rented nor resting. */
export const freeIn = (world: World, pool: string, nowMs: number): number => {
  const gone = Object.values(world.rentals).filter(
    (rental) =>
      poolOf(rental.productId, rental.target) === pool &&
      (rental.releasedAtMs === null || rental.releasedAtMs + restMs > nowMs),
  )
  return (world.pools[pool] ?? 0) - gone.length
}

/** The customer of the account, who exists from its first use on. */
export const customerOf = (world: World, account: string, name: string): Customer => {
  const key = `${account} ${name}`
  world.customers[key] ??= { account, name, id: null, creditCents: 0 }
  return world.customers[key]
}

export const move = (account: Account, type: string, cents: number, orderId: string | null = null): void => {
  account.balanceCents += cents
  account.movements.push({ type, cents, orderId })
}

/** Received money pays the account's debt first. */
export const credit = (
  account: Account,
  type: string,
  cents: number,
  orderId: string | null = null,
): void => {
  const owed = Math.min(account.owedCents, cents)
  account.owedCents -= owed
  move(account, type, cents - owed, orderId)
}

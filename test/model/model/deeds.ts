import { type Deed, differing, type Moment, type Printed } from './actions.ts'
import { bytesPerGb, credit, customerOf, move, type Order, type Plan, type World } from './state.ts'

const refused = (printed: Printed, code: string): string | null =>
  printed.code === 1 ? differing(printed.json, { code }) : `it was done, in place of ${code}`

const done = (printed: Printed, fields: Readonly<Record<string, unknown>>): string | null =>
  printed.code === 0 ? differing(printed.json, fields) : `refused: ${JSON.stringify(printed.json)}`

/** The sum of the first `count` of `all` equal parts of an amount, half a cent up. */
const partsCents = (cents: number, count: number, all: number): number =>
  Math.floor((2 * cents * count + all) / (2 * all))

type Back = { readonly cents: number; readonly costCents: number; readonly proxyIds: string[] }

const refundOf = (order: Order, deed: Deed & { kind: 'refund' }): Back | null => {
  const { amountCents, costCents, refundedCents } = order
  const left = amountCents - refundedCents
  const leftCost = costCents - order.refundedCostCents
  const remaining = order.proxyIds.filter((id) => !order.refundedProxies.includes(id))
  /** The last cent of the price takes the rest of the cost and of the fulfilment. */
  const back = (cents: number, cost: number, proxyIds: string[]): Back =>
    cents === left
      ? { cents, costCents: leftCost, proxyIds: remaining }
      : { cents, costCents: Math.max(0, Math.min(cost, leftCost)), proxyIds }
  if (deed.cents !== null) {
    if (deed.cents > left) return null
    const cost = partsCents(costCents, refundedCents + deed.cents, amountCents) - order.refundedCostCents
    return back(deed.cents, cost, [])
  }
  if (deed.proxyIds === null) return back(left, leftCost, remaining)
  const named = [...new Set(deed.proxyIds)]
  if (order.kind === 'extension' || named.some((id) => !remaining.includes(id))) return null
  if (named.length === remaining.length) return back(left, leftCost, remaining)
  const before = order.refundedProxies.length
  const all = order.proxyIds.length
  const share = (cents: number) =>
    partsCents(cents, before + named.length, all) - partsCents(cents, before, all)
  return back(Math.min(share(amountCents), left), share(costCents), named)
}

/** Whether an order that is not refunded whole has extended the rental, which still runs. */
const paidFor = ({ rentals, orders }: World, id: string, nowMs: number): boolean => {
  const { releasedAtMs, expiresAtMs, extendedBy } = rentals[id]!
  const isPaid = extendedBy.some((by) => orders[by]!.refundedCents < orders[by]!.amountCents)
  return releasedAtMs === null && expiresAtMs > nowMs && isPaid
}

export const remainingBytes = ({ totalGb, takenBytes, usedBytes }: Plan): number =>
  Math.max(0, totalGb! * bytesPerGb - takenBytes - usedBytes)

/** A whole refund takes the unused units with it. */
const takeBackUnits = (world: World, order: Order, nowMs: number): void => {
  const plan = world.plans[order.planId ?? '']
  if (!plan) return
  if (plan.totalGb !== null) plan.takenBytes += Math.min(order.quantity * bytesPerGb, remainingBytes(plan))
  else if (plan.expiresAtMs! > nowMs) plan.expiresAtMs = nowMs
}

const judgeRefund = (
  { world, nowMs }: Moment,
  deed: Deed & { kind: 'refund' },
  printed: Printed,
): string | null => {
  const order = world.orders[deed.orderId]!
  const refund = refundOf(order, deed)
  if (!refund || refund.cents <= 0) return refused(printed, 'refund_refused')
  if (order.kind !== 'extension' && refund.proxyIds.some((id) => paidFor(world, id, nowMs)))
    return refused(printed, 'refund_refused')
  order.refundedCents += refund.cents
  order.refundedCostCents += refund.costCents
  order.refundedProxies.push(...refund.proxyIds)
  const customer = world.customers[order.customer ?? '']
  if (customer) customer.creditCents += refund.cents
  credit(world.accounts[order.account]!, 'refund', refund.costCents, order.orderId)
  const whole = order.refundedCents === order.amountCents
  if (order.kind !== 'extension') for (const id of refund.proxyIds) world.rentals[id]!.releasedAtMs ??= nowMs
  if (whole) takeBackUnits(world, order, nowMs)
  const status = whole ? 'refunded' : 'completed'
  return done(printed, { refundCents: refund.cents, refundedCents: order.refundedCents, status })
}

const judgeAdjustment = (
  { world }: Moment,
  deed: Deed & { kind: 'adjust' },
  printed: Printed,
): string | null => {
  const account = world.accounts[deed.account]!
  const reference = `adjust ${deed.reference}`
  if (account.references.includes(reference)) return refused(printed, 'already_applied')
  const missing = Math.max(-deed.cents - account.balanceCents, 0)
  if (missing > 0 && deed.reason !== 'chargeback') return refused(printed, 'insufficient_balance')
  account.references.push(reference)
  if (deed.cents > 0) credit(account, deed.reason, deed.cents)
  else {
    account.owedCents += missing
    move(account, deed.reason, deed.cents + missing)
    if (deed.reason === 'chargeback') account.blocked = true
  }
  return done(printed, { balanceCents: account.balanceCents })
}

/** Checks the output of an operator's command and applies it to the world; returns the error, or null. */
export const judgeDeed = (moment: Moment, deed: Deed, printed: Printed): string | null => {
  const { world } = moment
  switch (deed.kind) {
    case 'refund':
      return judgeRefund(moment, deed, printed)
    case 'adjust':
      return judgeAdjustment(moment, deed, printed)
    case 'credit': {
      const account = world.accounts[deed.account]!
      if (account.references.includes(deed.reference)) return refused(printed, 'already_applied')
      account.references.push(deed.reference)
      credit(account, 'credit', deed.cents)
      return done(printed, { balanceCents: account.balanceCents })
    }
    case 'customerCredit': {
      const customer = customerOf(world, deed.account, deed.customer)
      const { references } = world.accounts[deed.account]!
      const reference = `customer ${deed.customer} ${deed.reference}`
      if (references.includes(reference)) return refused(printed, 'already_applied')
      references.push(reference)
      customer.creditCents += deed.cents
      return done(printed, { creditCents: customer.creditCents })
    }
    case 'meter': {
      const plan = world.plans[deed.planId]!
      plan.usedBytes += deed.bytes
      const remaining = plan.totalGb === null ? null : remainingBytes(plan)
      return done(printed, { usedBytes: plan.usedBytes, remainingBytes: remaining })
    }
    case 'block':
    case 'unblock':
      world.accounts[deed.account]!.blocked = deed.kind === 'block'
      return done(printed, { blocked: deed.kind === 'block' })
    case 'revoke':
    case 'issue': {
      const { keys } = world.accounts[deed.account]!
      const { scopes, capCents } = keys.main!
      if (deed.kind === 'revoke') keys.main!.revoked = true
      else keys.main = { scopes, capCents, revoked: false, spent: [] }
      return done(printed, {})
    }
  }
}

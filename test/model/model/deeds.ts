import { type Deed, differing, type Moment, type Printed } from './actions.ts'
import { bytesPerGb, credit, move, type Order, type Plan, type World } from './state.ts'

const refused = (printed: Printed, code: string): string | null =>
  printed.code === 1 ? differing(printed.json, { code }) : `it was done, in place of ${code}`

const done = (printed: Printed, fields: Readonly<Record<string, unknown>>): string | null =>
  printed.code === 0 ? differing(printed.json, fields) : `refused: ${JSON.stringify(printed.json)}`

/** What the first `count` of all equal parts come to, half a cent up. */
const partsCents = (order: Order, count: number): number => {
  const all = order.proxyIds.length
  return Math.floor((2 * order.amountCents * count + all) / (2 * all))
}

const refundOf = (
  order: Order,
  deed: Deed & { kind: 'refund' },
): { cents: number; proxyIds: string[] } | null => {
  const left = order.amountCents - order.refundedCents
  const kept = order.proxyIds.filter((id) => !order.refundedProxies.includes(id))
  if (deed.cents !== null)
    return deed.cents > left ? null : { cents: deed.cents, proxyIds: deed.cents === left ? kept : [] }
  if (deed.proxyIds === null) return { cents: left, proxyIds: kept }
  const named = [...new Set(deed.proxyIds)]
  if (order.kind === 'extension' || named.some((id) => !kept.includes(id))) return null
  const before = order.refundedProxies.length
  const share = partsCents(order, before + named.length) - partsCents(order, before)
  const cents = named.length === kept.length ? left : Math.min(share, left)
  return { cents, proxyIds: cents === left ? kept : named }
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
  order.refundedCents += refund.cents
  order.refundedProxies.push(...refund.proxyIds)
  credit(world.accounts[order.account]!, 'refund', refund.cents, order.orderId)
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

/** Judges what an operator's command printed and carries it into the world; tells what is wrong, or null. */
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

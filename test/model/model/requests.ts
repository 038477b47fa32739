import { type Answer, differing, type Moment, type Request } from './actions.ts'
import { type Catalog, findProduct, isDedicated, isRefusal } from './catalog.ts'
import { type Offer, offerOf, planOfPath, stockRefusal } from './offer.ts'
import { type Account, customerOf, dayMs, type Key, move, type Order, type World } from './state.ts'

type Refused = { readonly status: number; readonly code: string; readonly [field: string]: unknown }

const refused = (answer: Answer, { status, ...fields }: Refused): string | null =>
  answer.status === status
    ? differing(answer.body, fields)
    : `${answer.status} ${answer.body.code ?? ''} in place of ${status} ${fields.code}`

/** The request that a retry under the same key must repeat. */
const fingerprintOf = (catalog: Catalog, { path, body, customer }: Request): string => {
  const { product_id: id, expected_amount_cents: _guard, ...rest } = body
  const productId = typeof id === 'string' ? (findProduct(catalog, id)?.id ?? id) : null
  return JSON.stringify([path, productId, rest, customer])
}

const spentCents = (key: Key, nowMs: number): number =>
  key.spent.filter(({ atMs }) => atMs > nowMs - dayMs).reduce((sum, { cents }) => sum + cents, 0)

/** The wallet's answer to the cost, including the cap. */
const moneyRefusal = (account: Account, key: Key, amountCents: number, nowMs: number): Refused | null => {
  const spent = spentCents(key, nowMs)
  const { capCents } = key
  if (capCents !== null && spent + amountCents > capCents)
    return { status: 402, code: 'spend_cap_reached', capCents, spentCents: spent, amountCents }
  const { balanceCents, owedCents } = account
  if (amountCents <= balanceCents) return null
  const shortfallCents = amountCents + owedCents - balanceCents
  return {
    status: 402,
    code: 'insufficient_balance',
    balanceCents,
    amountCents,
    shortfallCents,
    owedCents: owedCents === 0 ? undefined : owedCents,
  }
}

/** The answer of the customer's credit, after the wallet. */
const creditRefusal = (creditCents: number, amountCents: number): Refused | null =>
  creditCents >= amountCents
    ? null
    : {
        status: 402,
        code: 'customer_credit_insufficient',
        shortfallCents: amountCents - creditCents,
        payUrl: undefined,
        depositId: undefined,
        chargeCents: undefined,
      }

const metaOf = ({ target, product }: Offer) =>
  target && {
    country: target.country,
    period_days: target.periodDays,
    ...(product.shape === 'addresses_mobile' && {
      carrier_id: target.carrierId,
      service: target.service,
      rotation_minutes: target.rotationMinutes,
    }),
  }

const landPlan = (world: World, offer: Offer, order: Order, atMs: number): string | null => {
  const { product, quantity } = offer
  const { account, planId, customer } = order
  if (planId === null) return 'the order names no plan'
  const held = Object.values(world.plans).find(
    (plan) =>
      plan.account === account &&
      plan.customer === customer &&
      plan.productId === product.id &&
      product.renewal === 'topup',
  )
  const expected = offer.planId ?? held?.planId
  if (expected !== undefined && planId !== expected) return `it landed on plan ${planId}, not on ${expected}`
  const plan = world.plans[planId]
  if (plan) {
    plan.totalGb = plan.totalGb! + quantity
    return expected === undefined ? `plan ${planId} stood already` : null
  }
  const timed = product.shape === 'gateway_time'
  world.plans[planId] = {
    planId,
    account,
    productId: product.id,
    customer,
    totalGb: timed ? null : quantity,
    usedBytes: 0,
    takenBytes: 0,
    expiresAtMs: timed ? atMs + product.periodDays! * dayMs : null,
  }
  return null
}

const landRentals = (world: World, offer: Offer, order: Order, atMs: number): string | null => {
  const target = offer.target!
  if (order.proxyIds.length !== offer.quantity)
    return `${order.proxyIds.length} addresses for ${offer.quantity}`
  if (offer.kind === 'extension') {
    if ([...order.proxyIds].sort().join() !== [...offer.proxyIds].sort().join())
      return 'other rentals were extended'
    for (const id of order.proxyIds) {
      world.rentals[id]!.expiresAtMs += target.periodDays * dayMs
      world.rentals[id]!.extendedBy.push(order.orderId)
    }
    return null
  }
  for (const proxyId of order.proxyIds) {
    if (world.rentals[proxyId]) return `rental ${proxyId} stood already`
    const { account, orderId } = order
    const expiresAtMs = atMs + target.periodDays * dayMs
    const found = { ip: null, releasedAtMs: null, expiresAtMs, extendedBy: [] }
    world.rentals[proxyId] = { proxyId, account, orderId, productId: offer.product.id, target, ...found }
  }
  return null
}

const fulfil = (
  moment: Moment,
  request: Request,
  offer: Offer,
  fingerprint: string,
  answer: Answer,
): string | null => {
  const { world } = moment
  const { body } = answer
  if (answer.status !== 201) return `${answer.status} ${body.code ?? ''} in place of 201`
  const account = world.accounts[request.account]!
  const { amountCents, costCents, quantity, product, kind } = offer
  const name = request.idempotencyKey ?? answer.madeKey
  if (name === null) return 'no Idempotency-Key was made'
  if (world.orders[body.orderId]) return `order ${body.orderId} stood already, under another key`
  const wrong = differing(body, {
    status: 'completed',
    kind,
    productId: product.id,
    shape: product.shape,
    quantity,
    amountCents,
    refundedCents: 0,
    unitPriceCents: Math.floor((2 * amountCents + quantity) / (2 * quantity)),
    balanceCents: account.balanceCents - costCents,
    fulfillmentMeta: metaOf(offer),
    yourCostCents: account.reseller ? costCents : undefined,
    refundedCostCents: account.reseller ? 0 : undefined,
    marginCents: account.reseller ? amountCents - costCents : undefined,
  })
  if (wrong) return wrong
  const { orderId, planId, proxyIds } = body
  const customer = request.customer === null ? null : customerOf(world, request.account, request.customer)
  const customerId = body.customerId ?? null
  if (customer === null ? customerId !== null : (customer.id ?? customerId) !== customerId)
    return `it is for ${customerId}, not for ${customer?.id ?? null}`
  if (customer) customer.id = customerId
  const progress = { refundedCents: 0, refundedCostCents: 0, refundedProxies: [] }
  const { target } = offer
  const order: Order = {
    orderId,
    account: request.account,
    kind,
    productId: product.id,
    quantity,
    customer: customer && `${customer.account} ${customer.name}`,
    amountCents,
    costCents,
    fingerprint,
    target,
    planId,
    proxyIds,
    ...progress,
  }
  world.orders[orderId] = order
  world.byKey[`${request.account} ${name}`] = orderId
  const atMs = Date.parse(body.createdAt)
  move(account, 'order', -costCents, orderId)
  if (customer) customer.creditCents -= amountCents
  account.keys[request.key]!.spent.push({ atMs, cents: costCents })
  return isDedicated(product) ? landRentals(world, offer, order, atMs) : landPlan(world, offer, order, atMs)
}

const replay = (order: Order, fingerprint: string, answer: Answer): string | null => {
  if (order.fingerprint !== fingerprint) return refused(answer, { status: 409, code: 'idempotency_conflict' })
  if (answer.status !== 200 || !answer.replayed) return `${answer.status} in place of a replay`
  const { orderId, amountCents, refundedCents } = order
  const status = refundedCents === amountCents ? 'refunded' : 'completed'
  return differing(answer.body, { orderId, amountCents, refundedCents, status })
}

const knownPlan = (world: World, request: Request): boolean => {
  const planId = planOfPath(request.path)
  return planId === null || world.plans[planId]?.account === request.account
}

/** Refusals before the look-up of the key's order (docs/reference/api.md, "Order of checks"). */
const earlyRefusal = (world: World, request: Request): Refused | null => {
  const account = world.accounts[request.account]!
  const key = account.keys[request.key]!
  if (key.revoked) return { status: 401, code: 'unauthorized' }
  if (!key.scopes.includes('buy')) return { status: 403, code: 'missing_scope' }
  if (account.blocked) return { status: 403, code: 'account_blocked' }
  if (request.customer !== null && !account.reseller) return { status: 403, code: 'reseller_forbidden' }
  if (account.reseller && request.idempotencyKey === null)
    return { status: 400, code: 'idempotency_key_required' }
  return null
}

/** Checks the answer to a request and applies it to the world; returns the error, or null. */
export const judgeRequest = (
  catalog: Catalog,
  moment: Moment,
  request: Request,
  answer: Answer,
): string | null => {
  const { world, views, nowMs } = moment
  const early = earlyRefusal(world, request)
  if (early) return refused(answer, early)
  const known = world.orders[world.byKey[`${request.account} ${request.idempotencyKey}`] ?? '']
  const { quantity } = request.body
  if (quantity !== undefined && !(Number.isInteger(quantity) && (quantity as number) >= 1))
    return refused(
      answer,
      known ? { status: 409, code: 'idempotency_conflict' } : { status: 400, code: 'invalid_quantity' },
    )
  if (!knownPlan(world, request)) return refused(answer, { status: 404, code: 'not_found' })
  const fingerprint = fingerprintOf(catalog, request)
  if (known) return replay(known, fingerprint, answer)
  const account = world.accounts[request.account]!
  const reasons = new Set<string>()
  for (const view of views) {
    const offer = offerOf(catalog, request, view, nowMs)
    const refusal = isRefusal(offer)
      ? offer
      : (stockRefusal(offer, world, nowMs) ??
        moneyRefusal(account, account.keys[request.key]!, offer.costCents, nowMs) ??
        (request.customer === null
          ? null
          : creditRefusal(
              customerOf(world, request.account, request.customer).creditCents,
              offer.amountCents,
            )))
    const wrong = isRefusal(offer)
      ? refused(answer, { ...offer })
      : refusal
        ? refused(answer, { ...refusal })
        : fulfil(moment, request, offer, fingerprint, answer)
    if (wrong === null) return null
    reasons.add(wrong)
  }
  return [...reasons].join(' | or: ')
}

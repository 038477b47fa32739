import {
  type Catalog,
  type Deed,
  findProduct,
  isDedicated,
  linesOf,
  type Request,
  type World,
} from './model.ts'
import type { Single } from './steps.ts'

export type Action =
  | { readonly kind: 'request'; readonly request: Request }
  | { readonly kind: 'deed'; readonly deed: Deed }

/** The players' inputs: the world of the model, and the earlier requests. */
export type Table = {
  readonly catalog: Catalog
  readonly world: World
  readonly sent: readonly Request[]
  /** A key that was never used. */
  freshKey(): string
  /** The price that an honest customer would expect. */
  quoted(request: Request): Promise<number | null>
}

const pick = <Item>(items: readonly Item[], n: number): Item | null => items[n % items.length] ?? null

/** Counted from the newest. */
const pickNewest = <Item>(items: readonly Item[], n: number): Item | null =>
  items.at(-1 - (n % Math.max(items.length, 1))) ?? null

const countriesOf = (catalog: Catalog, id: string): readonly string[] => {
  const product = findProduct(catalog, id)
  return [
    ...new Set([
      ...(product?.carriers?.map(({ country }) => country) ?? []),
      ...(product?.rates?.flatMap(({ countries }) => countries ?? []) ?? []),
    ]),
  ]
}

const metaOf = (catalog: Catalog, step: Single & { kind: 'buy' }): Record<string, unknown> | undefined => {
  const product = findProduct(catalog, step.product)
  const odd = step.wrong === 'field' ? { city: 'Dallas' } : {}
  if (!product || !isDedicated(product)) return step.wrong === 'field' ? odd : undefined
  const country = step.where === 'any' ? pick(countriesOf(catalog, product.id), step.line)! : step.where
  const { target } = pick(linesOf(product, country), step.line)!
  const mobile: Record<string, unknown> = {
    carrier_id: target.carrierId,
    service: target.service,
    rotation_minutes: target.rotationMinutes,
  }
  const left = {
    none: [],
    carrier: ['carrier_id'],
    service: ['service'],
    rotation: ['rotation_minutes'],
    all: Object.keys(mobile),
  }
  for (const field of left[step.open]) delete mobile[field]
  return {
    country: step.wrong === 'country' ? 'XXX' : country,
    period_days: step.wrong === 'period' ? 31 : target.periodDays,
    ...(target.carrierId !== null && mobile),
    ...odd,
  }
}

/** A reseller may name a customer; another's key that names one is refused. */
export const customerFor = (
  who: string,
  { customer, forbidden }: { readonly customer: string | null; readonly forbidden: boolean },
): string | null => (who === 'reseller' ? customer : forbidden ? 'ann' : null)

const buyRequest = ({ catalog, freshKey }: Table, step: Single & { kind: 'buy' }): Request => {
  const meta = metaOf(catalog, step)
  const body = {
    product_id: step.product,
    quantity: step.quantity,
    ...(meta && { fulfillment_meta: meta }),
    ...(step.wrong === 'card' && { method: 'pix' }),
  }
  const idempotencyKey = step.keyed ? freshKey() : null
  // A wrong body is reported before a wrong header.
  const sound = Number.isInteger(step.quantity) && step.quantity >= 1 && step.wrong === 'no'
  const customer = customerFor(step.who, { ...step, forbidden: step.forbidden && sound })
  return { account: step.who, key: 'main', path: '/api/v1/orders', body, idempotencyKey, customer }
}

const topUpRequest = ({ world, freshKey }: Table, step: Single & { kind: 'topUp' }): Request | null => {
  const plan = pickNewest(
    Object.values(world.plans).filter(
      ({ account, customer }) => customer === null && (!step.own || account === step.who),
    ),
    step.plan,
  )
  if (!plan) return null
  const path = `/api/v1/plans/${plan.planId}/topup`
  return {
    account: step.who,
    key: 'main',
    path,
    body: { quantity: step.quantity },
    idempotencyKey: freshKey(),
    customer: null,
  }
}

const extendRequest = ({ world, freshKey }: Table, step: Single & { kind: 'extend' }): Request | null => {
  const orders = Object.values(world.orders).filter(
    (order) => order.target !== null && order.customer === null && (!step.own || order.account === step.who),
  )
  const order = pickNewest(orders, step.order)
  if (!order) return null
  const other = pickNewest(orders, step.order + 1)!
  const named = {
    order: null,
    first: order.proxyIds.slice(0, 1),
    all: order.proxyIds,
    mixed: [...order.proxyIds, ...other.proxyIds],
  }[step.how]
  const body = {
    ...(named === null ? { order_id: order.orderId } : { proxy_ids: named }),
    period_days: step.period,
  }
  const path = '/api/v1/proxies/extend'
  return { account: step.who, key: 'main', path, body, idempotencyKey: freshKey(), customer: null }
}

const retryRequest = ({ sent }: Table, step: Single & { kind: 'retry' }): Request | null => {
  const request = pickNewest(sent, step.request)
  if (!request) return null
  const { body } = request
  const { quantity, product_id: id } = body
  switch (step.change) {
    case 'quantity':
      return typeof quantity === 'number'
        ? { ...request, body: { ...body, quantity: quantity + 1 } }
        : request
    case 'guard':
      return { ...request, body: { ...body, expected_amount_cents: 1 } }
    case 'alias':
      return id === 'residential-premium'
        ? { ...request, body: { ...body, product_id: 'resi-premium' } }
        : request
    case 'customer':
      return request.customer === null ? request : { ...request, customer: 'cy' }
    case 'none':
      return request
  }
}

const guarded = async (
  table: Table,
  request: Request | null,
  guard: 'none' | 'right' | 'wrong',
): Promise<Action | null> => {
  if (!request) return null
  const amountCents = guard === 'none' ? null : await table.quoted(request)
  if (amountCents === null) return { kind: 'request', request }
  const expected = guard === 'right' ? amountCents : amountCents + 1
  return {
    kind: 'request',
    request: { ...request, body: { ...request.body, expected_amount_cents: expected } },
  }
}

const deed = (deed: Deed | null): Action | null => deed && { kind: 'deed', deed }

const refundDeed = ({ world }: Table, step: Single & { kind: 'refund' }): Deed | null => {
  const order = pickNewest(Object.values(world.orders), step.order)
  if (!order) return null
  const { orderId } = order
  if (step.how === 'whole') return { kind: 'refund', orderId, cents: null, proxyIds: null }
  if ('percent' in step.how) {
    const leftCents = order.amountCents - order.refundedCents
    const cents = Math.max(1, Math.ceil((leftCents * step.how.percent) / 100))
    return { kind: 'refund', orderId, cents, proxyIds: null }
  }
  const proxyIds = order.proxyIds.slice(-step.how.proxies)
  return proxyIds.length === 0 ? null : { kind: 'refund', orderId, cents: null, proxyIds }
}

/** The action of a step in the present world; null if it has no subject. */
export const planAction = async (table: Table, step: Single): Promise<Action | null> => {
  const { world } = table
  switch (step.kind) {
    case 'buy':
      return guarded(table, buyRequest(table, step), step.guard)
    case 'topUp':
      return guarded(table, topUpRequest(table, step), step.guard)
    case 'extend':
      return guarded(table, extendRequest(table, step), step.guard)
    case 'retry':
      return guarded(table, retryRequest(table, step), 'none')
    case 'refund':
      return deed(refundDeed(table, step))
    case 'credit':
      return deed({
        kind: 'credit',
        account: step.who,
        cents: step.cents,
        reference: `ref ${step.reference}`,
      })
    case 'customerCredit': {
      const { customer, cents, reference } = step
      return deed({
        kind: 'customerCredit',
        account: 'reseller',
        customer,
        cents,
        reference: `ref ${reference}`,
      })
    }
    case 'adjust': {
      const { cents, reason } = step
      if (reason === 'chargeback' && cents > 0) return null
      return deed({ kind: 'adjust', account: step.who, cents, reason, reference: `ref ${step.reference}` })
    }
    case 'meter': {
      const plan = pickNewest(Object.values(world.plans), step.plan)
      return deed(plan && { kind: 'meter', planId: plan.planId, bytes: step.bytes })
    }
    default:
      return deed({ kind: step.kind, account: step.who })
  }
}

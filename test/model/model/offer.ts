import type { Request } from './actions.ts'
import {
  type Catalog,
  figuresOf,
  findProduct,
  fittingLines,
  isDedicated,
  isRefusal,
  type Line,
  type Product,
  quantityRefusal,
  type Refusal,
  refusal,
} from './catalog.ts'
import { dayMs, freeIn, poolOf, type Target, type World } from './state.ts'

/** The item of a new request, before wallet and stock are checked. */
export type Offer = {
  readonly kind: 'order' | 'topup' | 'extension'
  readonly product: Product
  readonly quantity: number
  /** The charge of the payer, and the debit of the wallet. */
  readonly amountCents: number
  readonly costCents: number
  readonly target: Target | null
  /** The plan that is topped up; null when the order finds its own. */
  readonly planId: string | null
  /** The rentals to keep. */
  readonly proxyIds: readonly string[]
}

const isOver = (world: World, proxyId: string, nowMs: number): boolean => {
  const rental = world.rentals[proxyId]
  return !rental || rental.releasedAtMs !== null || rental.expiresAtMs <= nowMs
}

/** Left open, the cheapest line in stock is taken; at equal price the first. */
const chooseLine = (
  product: Product,
  lines: readonly Line[],
  quantity: number,
  view: World,
  nowMs: number,
): Line => {
  const stocked = lines.filter(({ target }) => freeIn(view, poolOf(product.id, target), nowMs) >= quantity)
  const choice = stocked.length > 0 && lines.length > 1 ? stocked : lines
  const price = (line: Line) => line.tiers.filter(({ from }) => from <= quantity).at(-1)!.unitPriceMicros
  return choice.reduce((best, line) => (price(line) < price(best) ? line : best))
}

/** An active product, or why it cannot be ordered. */
const orderable = (catalog: Catalog, id: string): Product | Refusal => {
  const product = findProduct(catalog, id)
  if (!product) return refusal(400, 'unknown_product')
  return (product.state ?? 'active') === 'active' ? product : refusal(409, 'product_unavailable')
}

/** The terms of the caller, for itself or for a customer. */
type Figures = (
  tiers: NonNullable<Product['tiers']>,
  quantity: number,
) => Pick<Offer, 'amountCents' | 'costCents'>

const orderOffer = (
  catalog: Catalog,
  body: Request['body'],
  view: World,
  nowMs: number,
  figures: Figures,
): Offer | Refusal => {
  const product = orderable(catalog, String(body.product_id))
  if (isRefusal(product)) return product
  const wrong = quantityRefusal(product, body.quantity, product.minQuantity)
  if (wrong) return wrong
  const quantity = body.quantity as number
  const meta = (body.fulfillment_meta ?? {}) as Readonly<Record<string, unknown>>
  const plain = { kind: 'order', product, quantity, planId: null, proxyIds: [] } as const
  if (!isDedicated(product)) {
    if (Object.keys(meta).length > 0) return refusal(400, 'invalid_targeting')
    return { ...plain, target: null, ...figures(product.tiers!, quantity) }
  }
  const lines = fittingLines(product, meta)
  if (isRefusal(lines)) return lines
  const { target, tiers } = chooseLine(product, lines, quantity, view, nowMs)
  return { ...plain, target, ...figures(tiers, quantity) }
}

const topUpOffer = (
  catalog: Catalog,
  view: World,
  planId: string,
  quantity: unknown,
  figures: Figures,
): Offer | Refusal => {
  const product = findProduct(catalog, view.plans[planId]!.productId)!
  if (product.renewal !== 'topup') return refusal(400, 'invalid_body')
  const wrong = quantityRefusal(product, quantity, product.minQuantity)
  if (wrong) return wrong
  return {
    kind: 'topup',
    product,
    quantity: quantity as number,
    ...figures(product.tiers!, quantity as number),
    target: null,
    planId,
    proxyIds: [],
  }
}

const extensionOffer = (
  catalog: Catalog,
  request: Request,
  view: World,
  nowMs: number,
  figures: Figures,
): Offer | Refusal => {
  const { proxy_ids: named, order_id: orderId, period_days: periodDays } = request.body
  const mine = Object.values(view.rentals).filter(({ account }) => account === request.account)
  const over = (id: string) => isOver(view, id, nowMs)
  const proxyIds = Array.isArray(named)
    ? [...new Set(named as string[])]
    : mine
        .filter((rental) => rental.orderId === orderId && !over(rental.proxyId))
        .map(({ proxyId }) => proxyId)
  const rentals = proxyIds.flatMap((id) => mine.find(({ proxyId }) => proxyId === id) ?? [])
  const [first] = rentals
  if (!first || rentals.length < proxyIds.length) return refusal(404, 'not_found')
  if (proxyIds.some(over)) return refusal(409, 'out_of_stock')
  const lineOf = ({ productId, target }: typeof first) =>
    [poolOf(productId, target), target.rotationMinutes].join()
  if (rentals.some((rental) => lineOf(rental) !== lineOf(first))) return refusal(400, 'invalid_body')
  const product = findProduct(catalog, first.productId)!
  const { country, carrierId, service, rotationMinutes } = first.target
  const mobile = carrierId !== null && { carrier_id: carrierId, service, rotation_minutes: rotationMinutes }
  const lines = fittingLines(product, { country, period_days: periodDays, ...mobile })
  if (isRefusal(lines)) return lines
  const lastEndMs = Math.max(...rentals.map(({ expiresAtMs }) => expiresAtMs))
  const tenYearsMs = 10 * 365 * dayMs
  if (lastEndMs + Number(periodDays) * dayMs > nowMs + tenYearsMs) return refusal(400, 'invalid_period')
  const { target, tiers } = lines[0]!
  const quantity = rentals.length
  return {
    kind: 'extension',
    product,
    quantity,
    ...figures(tiers, quantity),
    target,
    planId: null,
    proxyIds,
  }
}

export const planOfPath = (path: string): string | null =>
  /^\/api\/v1\/plans\/([^/]+)\/topup$/.exec(path)?.[1] ?? null

/** The requested item, in the world of its look-up; then a rail and the expected price. */
export const offerOf = (catalog: Catalog, request: Request, view: World, nowMs: number): Offer | Refusal => {
  const { path, body } = request
  const planId = planOfPath(path)
  const { terms } = view.accounts[request.account]!
  const figures: Figures = (tiers, quantity) => figuresOf(tiers, quantity, terms, request.customer !== null)
  const offer =
    planId !== null
      ? topUpOffer(catalog, view, planId, body.quantity, figures)
      : path === '/api/v1/proxies/extend'
        ? extensionOffer(catalog, request, view, nowMs, figures)
        : orderOffer(catalog, body, view, nowMs, figures)
  if (isRefusal(offer)) return offer
  // A customer's credit pays, for any method; the method says how a missing amount could be paid.
  const hosted = body.method !== undefined && body.method !== 'wallet'
  if (hosted && request.customer === null) return refusal(403, 'deposits_not_available')
  const guard = body.expected_amount_cents
  if (guard !== undefined && guard !== offer.amountCents) return refusal(409, 'price_changed')
  return offer
}

/** The answer of the stock or the rentals to an offer. */
export const stockRefusal = (
  { kind, product, target, quantity, proxyIds }: Offer,
  world: World,
  nowMs: number,
) => {
  const short =
    kind === 'order' && target !== null && freeIn(world, poolOf(product.id, target), nowMs) < quantity
  const ended = kind === 'extension' && proxyIds.some((id) => isOver(world, id, nowMs))
  return short || ended ? refusal(409, 'out_of_stock') : null
}

import type { Target, Terms } from './state.ts'

type Tier = { readonly from: number; readonly unitPriceMicros: number }
type Rate = {
  readonly countries?: readonly string[]
  readonly carriers?: readonly string[]
  readonly service?: string
  readonly rotationMinutes?: readonly number[]
  readonly periodDays: readonly number[]
  readonly tiers: readonly Tier[]
}

/** A product as the published catalogue file writes it. */
export type Product = {
  readonly id: string
  readonly aliases?: readonly string[]
  readonly shape: 'gateway_gb' | 'gateway_time' | 'addresses' | 'addresses_mobile'
  readonly state?: 'active' | 'parked' | 'retired'
  readonly renewal: 'topup' | 'repurchase' | 'extend'
  readonly minQuantity: number
  readonly maxQuantity: number
  readonly periodDays?: number
  readonly tiers?: readonly Tier[]
  readonly carriers?: readonly { readonly id: string; readonly country: string }[]
  readonly rates?: readonly Rate[]
}

export type Catalog = readonly Product[]
export type Line = { readonly target: Target; readonly tiers: readonly Tier[] }
export type Refusal = { readonly status: number; readonly code: string }

export const refusal = (status: number, code: string): Refusal => ({ status, code })

export const findProduct = (catalog: Catalog, id: string): Product | undefined =>
  catalog.find((product) => product.id === id || product.aliases?.includes(id))

export const isDedicated = ({ shape }: Product): boolean => shape.startsWith('addresses')

const halfUp = (numerator: bigint, denominator: bigint): number =>
  Number((2n * numerator + denominator) / (2n * denominator))

/**
 * The amounts for the payer and the wallet, whole cents, each rounded half up once from the exact list price.
 */
export const figuresOf = (
  tiers: readonly Tier[],
  quantity: number,
  terms: Terms | null,
  forCustomer: boolean,
): { readonly amountCents: number; readonly costCents: number } => {
  const tier = tiers.filter(({ from }) => from <= quantity).at(-1)!
  const listMicros = BigInt(tier.unitPriceMicros) * BigInt(quantity)
  const { discountBp, markupMillionths } = terms ?? { discountBp: 0, markupMillionths: 1_000_000 }
  const costCents = halfUp(listMicros * BigInt(10_000 - discountBp), 10_000n * 10_000n)
  const priceCents = halfUp(listMicros * BigInt(markupMillionths), 10_000n * 1_000_000n)
  return { amountCents: forCustomer ? priceCents : costCents, costCents }
}

/** Everything that a dedicated product sells in a country, in the order of the file. */
export const linesOf = (product: Product, country: string): Line[] => {
  const carriers = product.carriers?.filter((carrier) => carrier.country === country).map(({ id }) => id)
  return (product.rates ?? []).flatMap((rate) => {
    const places = carriers
      ? (rate.carriers ?? []).filter((id) => carriers.includes(id))
      : (rate.countries ?? []).filter((code) => code === country)
    return places.flatMap((place) =>
      (rate.rotationMinutes ?? [null]).flatMap((rotationMinutes) =>
        rate.periodDays.map((periodDays) => ({
          target: {
            country,
            periodDays,
            carrierId: carriers ? place : null,
            service: rate.service ?? null,
            rotationMinutes,
          },
          tiers: rate.tiers,
        })),
      ),
    )
  })
}

const isWhole = (value: unknown): value is number => typeof value === 'number' && Number.isInteger(value)

export const quantityRefusal = (product: Product, quantity: unknown, least: number): Refusal | null =>
  isWhole(quantity) && quantity >= least && quantity <= product.maxQuantity
    ? null
    : refusal(400, 'invalid_quantity')

type Meta = Readonly<Record<string, unknown>>

/** The lines that a dedicated order's `fulfillment_meta` leaves open; one when it names everything. */
export const fittingLines = (product: Product, meta: Meta): Line[] | Refusal => {
  const read = [
    'country',
    'period_days',
    ...(product.carriers ? ['carrier_id', 'service', 'rotation_minutes'] : []),
  ]
  if (Object.keys(meta).some((field) => !read.includes(field))) return refusal(400, 'invalid_targeting')
  const inCountry = linesOf(product, String(meta.country ?? '').toUpperCase())
  if (inCountry.length === 0) return refusal(400, 'invalid_country')
  const inPeriod = inCountry.filter(({ target }) => target.periodDays === meta.period_days)
  if (inPeriod.length === 0) return refusal(400, 'invalid_period')
  const fitting = inPeriod.filter(
    ({ target }) =>
      (meta.carrier_id === undefined || meta.carrier_id === target.carrierId) &&
      (meta.service === undefined || meta.service === target.service) &&
      (meta.rotation_minutes === undefined || meta.rotation_minutes === target.rotationMinutes),
  )
  return fitting.length === 0 ? refusal(400, 'invalid_targeting') : fitting
}

export const isRefusal = (value: object): value is Refusal => 'code' in value && 'status' in value

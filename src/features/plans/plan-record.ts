import { z } from 'zod'
import {
  type FoundPlan,
  findPlan,
  type PlanRow,
  type PlanStatus,
  planStatuses,
} from '../../../projections/plans.ts'
import type { Product } from '../../domain/catalog/product.ts'
import { maxStickyMinutes } from '../../domain/exits/line.ts'
import type { PlanActivated } from '../../domain/plans/events.ts'
import { thresholdPct } from '../../domain/plans/fold.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { PlanId } from '../../kernel/ids.ts'
import type { AccountScope as Scope } from '../../kernel/scopes.ts'
import { planStream } from '../../kernel/streams.ts'
import { createGenuineRows, type GenuineRows } from '../../platform/commands/genuine-rows.ts'
import { refuse } from '../../platform/http/errors.ts'
import { namedEnum } from '../../platform/http/named-enum.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { customerField, customerIdField } from '../accounts/index.ts'

export type VerifiedPlan = FoundPlan & { readonly planId: PlanId }

export type FindPlanDependencies = {
  readonly reads: Pick<Reads, 'settled'>
  readonly db: Db
  readonly verifyPlans: VerifyPlans
}

/**
 * Reads a plan within a caller's scope, including the account's own changes up to `after`.
 * @throws not_found for an absent plan and for one of another account
 */
export const createFindPlan =
  ({ reads, db, verifyPlans }: FindPlanDependencies) =>
  async (scope: Scope, planId: string, after: number | null): Promise<VerifiedPlan> => {
    await reads.settled(scope.accountId, after ?? 0)
    const found = await findPlan(db, scope, planId)
    const [plan] = found === undefined ? [] : await verifyPlans(scope.accountId, [found])
    if (!plan) throw refuse('not_found', 'no plan has this id')
    return plan as VerifiedPlan
  }

const instant = z.string().meta({ format: 'date-time' })
const gigabytes = z.number().meta({ description: 'Traffic in GB. 1 GB is 1,000,000,000 bytes.' })

/** A plan that proxy lines are generated from (research: proxies, 2.1). */
export const PlanRecord = z
  .object({
    planId: z.string(),
    product: z.string(),
    productId: z.string(),
    label: z.string().meta({ description: "The account's own label of the plan. An empty text: no label." }),
    customerId: customerIdField,
    customer: customerField,
    status: namedEnum('PlanStatus', planStatuses),
    shape: z.enum(['gateway_gb', 'gateway_time']),
    renewal: z.enum(['topup', 'repurchase']),
    dataGbTotal: gigabytes.nullable().meta({
      description: 'The total traffic in GB (1 GB is 1,000,000,000 bytes). Null: a time-based plan.',
    }),
    dataGbUsed: gigabytes,
    dataGbRemaining: gigabytes.nullable(),
    bytesUsed: z.int(),
    thresholdPct: z.int().meta({ description: 'The percentage of the total traffic that counts as low.' }),
    lowTrafficSince: instant.nullable().meta({
      description:
        'The time when the remaining traffic fell to `thresholdPct` or less. Null: more traffic remains, or the plan is time-based.',
    }),
    speedUnits: z
      .int()
      .nullable()
      .meta({ description: 'The number of speed units. Null: the plan is charged by traffic.' }),
    startedAt: instant,
    expiresAt: instant.nullable(),
    orderIds: z.array(z.string()).meta({ description: 'The ids of the last 50 orders, newest first.' }),
    connection: z.object({
      host: z.string(),
      ports: z.object({
        http: z.int(),
        https: z.int().nullable().meta({
          description: 'The port for a TLS connection to the proxy. Null: the service has no TLS port.',
        }),
        socks5: z.int(),
      }),
      username: z.string(),
      password: z.string(),
    }),
    generate: z.object({
      maxCount: z.int(),
      targeting: z.array(z.string()),
      stickyMaxMinutes: z.int().meta({
        description: 'The maximum session length in minutes. A session uses the same exit for this time.',
      }),
    }),
    whitelistCount: z
      .int()
      .meta({ description: 'The number of addresses and networks that connect without credentials.' }),
  })
  .meta({ id: 'Plan' })
export type PlanRecord = z.infer<typeof PlanRecord>

export type Credentials = { readonly username: string; readonly password: string }
export type Gateway = {
  readonly host: string
  readonly port: number
  /** Null: no port has TLS. */
  readonly tls: { readonly port: number } | null
}

/** Computes expired and depleted at the time of the read, so that they apply at once. */
export const planStatus = (row: FoundPlan, nowMs: number): PlanStatus => {
  if (row.expiresAt !== null && row.expiresAt <= isoTime(nowMs)) return 'expired'
  return row.totalBytes !== null && row.usedBytes >= row.totalBytes ? 'depleted' : 'active'
}

const gb = (bytes: number): number => bytes / 1_000_000_000

type PlanContext = {
  /** The catalogue's product; if left out, the product's id is the plan's name. */
  readonly product: Product | undefined
  readonly nowMs: number
  /** The reseller's own id of the plan's customer. */
  readonly customer: string | null
}

/** A plan without its connection data. */
export type PlanFacts = Omit<PlanRecord, 'connection' | 'generate' | 'whitelistCount'>

export const planFacts = (row: FoundPlan, { product, nowMs, customer }: PlanContext): PlanFacts => ({
  planId: row.planId,
  product: product?.name ?? row.productId,
  productId: row.productId,
  label: row.label ?? '',
  customerId: row.customerId,
  customer,
  status: planStatus(row, nowMs),
  shape: row.shape,
  renewal: row.renewal,
  dataGbTotal: row.totalBytes === null ? null : gb(row.totalBytes),
  dataGbUsed: gb(row.usedBytes),
  dataGbRemaining: row.totalBytes === null ? null : gb(Math.max(0, row.totalBytes - row.usedBytes)),
  bytesUsed: row.usedBytes,
  thresholdPct,
  lowTrafficSince: row.lowSince,
  speedUnits: row.speedUnits,
  startedAt: row.startedAt,
  expiresAt: row.expiresAt,
  orderIds: [...row.orderIds],
})

/** The connection data of a plan: one port for HTTP and SOCKS5, another one for HTTP over TLS. */
export const connectionOf = (
  { host, port, tls }: Gateway,
  credentials: Credentials,
): PlanRecord['connection'] => ({
  host,
  ports: { http: port, https: tls?.port ?? null, socks5: port },
  ...credentials,
})

export const planRecord = (
  row: FoundPlan,
  context: PlanContext & { readonly credentials: Credentials; readonly gateway: Gateway },
): PlanRecord => {
  const { product, credentials, gateway } = context
  const generate = product && 'generate' in product ? product.generate : { maxCount: 0, targeting: [] }
  return {
    ...planFacts(row, context),
    connection: connectionOf(gateway, credentials),
    generate: {
      maxCount: generate.maxCount,
      targeting: [...generate.targeting],
      stickyMaxMinutes: maxStickyMinutes,
    },
    whitelistCount: row.whitelistCount,
  }
}

export const planExample: PlanRecord = {
  planId: 'pln_7d0f8f2e2f0b5a7c9a3c1f8d2b6e4a10',
  product: 'Residential Premium',
  productId: 'residential-premium',
  label: 'acme',
  customerId: null,
  customer: null,
  status: 'active',
  shape: 'gateway_gb',
  renewal: 'topup',
  dataGbTotal: 10,
  dataGbUsed: 2.35,
  dataGbRemaining: 7.65,
  bytesUsed: 2_350_000_000,
  thresholdPct: 10,
  lowTrafficSince: null,
  speedUnits: null,
  startedAt: '2026-11-21T02:30:00.000Z',
  expiresAt: null,
  orderIds: ['ord_5f3c2a1b9d8e5f60a1b2c3d4e5f60718'],
  connection: {
    host: 'gw.example',
    ports: { http: 9000, https: null, socks5: 9000 },
    username: 'u7k2m9x4',
    password: 'p4ssw0rdp4ssw0rd1234',
  },
  generate: { maxCount: 5000, targeting: ['country', 'state', 'city'], stickyMaxMinutes: maxStickyMinutes },
  whitelistCount: 1,
}

type Owned = Pick<PlanRow, 'planId' | 'customerId' | 'productId'>

/** Verifies owner and product of plans in the log, because credentials derive from plan ids, and top-ups are priced. */
export type VerifyPlans = GenuineRows<Owned>

export const createPlanVerifier = (dependencies: Parameters<typeof createGenuineRows>[0]): VerifyPlans =>
  createGenuineRows<Owned>(dependencies, {
    keyOf: (row) => `${row.planId} ${row.customerId} ${row.productId}`,
    streamOf: (row) => planStream(row.planId as PlanId),
    // The first event activates the plan and names its owner.
    limitEach: 1,
    isGenuine: (accountId, row, [event]) => {
      if (event?.type !== 'PlanActivated') return false
      const plan = event.data as PlanActivated['data']
      return (
        plan.accountId === accountId && plan.customerId === row.customerId && plan.productId === row.productId
      )
    },
  })

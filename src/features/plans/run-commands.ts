import { type FoundPlan, findPlan, isPlan, listPlans, type PlanStatus } from '../../../projections/plans.ts'
import { isoTime } from '../../kernel/clock.ts'
import { type AccountId, newId, type PlanId } from '../../kernel/ids.ts'
import { type ListScope, wholeAccount } from '../../kernel/scopes.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import type { InputOf } from '../../platform/cli/input.ts'
import { CliRefusal, fields, notFound, table } from '../../platform/cli/output.ts'
import { customerRefs, type ListedResource, type Owned } from '../accounts/index.ts'
import type { meterInput, requestsInput, trafficInput } from './commands.ts'
import { createMeter } from './meter-traffic.ts'
import { type PlanFacts, planFacts } from './plan-record.ts'
import { hourRange, readRequests, readTraffic } from './traffic-records.ts'

const factsOf = async (
  { pool, clock }: CliContext,
  { accountId }: ListScope,
  rows: readonly FoundPlan[],
): Promise<readonly Owned<PlanFacts>[]> => {
  const refs = await customerRefs(
    pool,
    accountId,
    rows.map((row) => row.customerId),
  )
  return rows.map((row) => ({
    ...planFacts(row, { product: undefined, nowMs: clock(), customer: refs.get(row.customerId) ?? null }),
    accountId: row.accountId as AccountId,
  }))
}

const gigabytes = (gb: number | null): string => (gb === null ? '-' : `${gb} GB`)

export const plans: ListedResource<PlanFacts> = {
  owner: { table: 'read.plans', id: 'plan_id' },
  reads: (context) => {
    const { db } = context
    return {
      list: async (scope, page) => {
        const filter = { ...page, productId: undefined, status: page.status as PlanStatus | undefined }
        const found = await listPlans(db, scope, filter, context.clock())
        return { rows: await factsOf(context, scope, found.plans), total: found.total }
      },
      find: async (account, id) => {
        const scope = wholeAccount(account)
        const found = await findPlan(db, scope, id)
        return found ? ((await factsOf(context, scope, [found]))[0] ?? null) : null
      },
    }
  },
  fields: {
    plan: 'planId',
    status: 'status',
    product: 'productId',
    renewal: 'renewal',
    total: (row) => gigabytes(row.dataGbTotal),
    used: (row) => gigabytes(row.dataGbUsed),
    left: (row) => gigabytes(row.dataGbRemaining),
    'low since': 'lowTrafficSince',
    'speed units': 'speedUnits',
    label: (row) => row.label || null,
    customer: 'customerId',
    'own id of the customer': 'customer',
    orders: (row) => row.orderIds.join(' ') || null,
    'started at': 'startedAt',
    'expires at': 'expiresAt',
  },
  columns: ['plan', 'status', 'product', 'total', 'left', 'customer', 'started at', 'expires at'],
}

export const meter = async (context: CliContext, { plan, bytes, report }: InputOf<typeof meterInput>) => {
  const request = { planId: plan, reportId: report ?? newId('rep'), bytes }
  const answer = await createMeter(context).reportOnce(request)
  if (!answer.metered)
    throw answer.reason === 'unknown_plan'
      ? notFound(`no plan has the id ${plan}`)
      : new CliRefusal('already_applied', 'this report was counted before; nothing was added')
  const { usedBytes, remainingBytes } = answer
  return {
    json: { planId: plan, usedBytes, remainingBytes },
    text: fields({ plan, 'used bytes': usedBytes, 'remaining bytes': remainingBytes }),
  }
}

const requirePlan = async ({ db }: CliContext, plan: PlanId): Promise<void> => {
  if (!(await isPlan(db, plan))) throw notFound(`no plan has the id ${plan}; "plans list" shows them`)
}

export const requests = async (context: CliContext, input: InputOf<typeof requestsInput>) => {
  const { plan, request, limit, ...filter } = input
  await requirePlan(context, plan)
  const rows = await readRequests(
    context.pool,
    plan,
    { ...filter, requestId: request },
    { after: null, limit },
  )
  return {
    json: { planId: plan, requests: rows },
    text: table(
      rows,
      {
        'ended at': 'endedAt',
        protocol: 'protocol',
        target: ({ host, port }) => (host === null ? null : port === null ? host : `${host}:${port}`),
        exit: 'country',
        up: ({ bytesUp }) => String(bytesUp),
        down: ({ bytesDown }) => String(bytesDown),
        ms: ({ durationMs }) => String(durationMs),
        reason: 'reason',
        request: 'requestId',
      },
      'no requests are recorded',
    ),
  }
}

const hourMs = 3_600_000

export const traffic = async (context: CliContext, { plan, by, hours }: InputOf<typeof trafficInput>) => {
  await requirePlan(context, plan)
  const toMs = context.clock()
  const range = hourRange({ fromMs: toMs - (hours - 1) * hourMs, toMs })
  const report = await readTraffic(context.pool, plan, range, by)
  const { groups, otherGroups, merged, unrecordedBytes, meteredBytes } = report
  const bytesOf = (sum: typeof merged): number => sum.bytesUp + sum.bytesDown
  const rows = [
    ...groups.map((group) => ({ name: group.value ?? '-', bytes: bytesOf(group), ...group })),
    { name: '(all others)', bytes: bytesOf(otherGroups), ...otherGroups },
    { name: '(recorded without details)', bytes: bytesOf(merged), ...merged },
    { name: '(in progress or not recorded)', bytes: unrecordedBytes, requests: null, failures: null },
    { name: '(metered)', bytes: meteredBytes, requests: null, failures: null },
  ]
  return {
    json: {
      planId: plan,
      groupBy: by,
      from: isoTime(range.fromMs),
      to: isoTime(range.toMs),
      ...report,
    },
    text: table(rows, {
      [by]: ({ name }) => name,
      bytes: ({ bytes }) => String(bytes),
      requests: (row) => (row.requests === null ? null : String(row.requests)),
      failures: (row) => (row.failures === null ? null : String(row.failures)),
    }),
  }
}

import type pg from 'pg'
import { countReversalTasks } from '../../../projections/reversals.ts'
import { failingEndpoints } from '../../../projections/webhooks.ts'
import { isoTime, secondOf } from '../../kernel/clock.ts'
import { type Probe, probeOutcome } from '../../platform/http/health.ts'
import { createSharedRead } from '../../platform/postgres/batch-loader.ts'
import { unreadableTable } from '../../platform/postgres/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import { readStoppedModels, stoppedText } from '../../platform/projections/checkpoint.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { type ConsolePage, staffPage } from '../../platform/ui/page.ts'
import { nameColumn, stateColumn, tableOf } from '../../platform/ui/table.ts'
import { buttonLink, countText } from '../../platform/ui/text.ts'
import { depthOf } from '../../platform/work/queue-operations.ts'
import type { QueueTable } from '../../platform/work/queue-table.ts'
import { proposalsAfter } from '../approvals/index.ts'
import { countDeadExits } from '../exits/index.ts'
import { poolsAfter } from '../stock/index.ts'
import { type AttentionItem, attentionList } from './overview-page.ts'
import type { OwnGateways } from './payment-gateway-pages.ts'

/** An order or a refund that is in progress for longer is stuck, milliseconds. */
const stuckMs = 10 * 60_000
const failedDays = 7
const dayMs = 86_400_000
/** The largest number of waiting proposals that is counted. */
const maxProposals = 100
/** The largest number of pools of addresses that are checked. */
const maxPools = 1_000
const verificationsPath = '/console/finance/verifications'
/** The largest number of failing endpoints that is counted. */
const maxEndpoints = 100

/** The result of a probe: `ok` or the problem. */
type Check = { readonly name: string; readonly outcome: string }

export type StaffReads = {
  readonly db: Db
  readonly pool: pg.Pool
  readonly probes: readonly Probe[]
  readonly queues: readonly QueueTable[]
  /** The figures of finance. */
  readonly financeSummary: (nowMs: number) => Promise<Html>
  readonly periods: {
    list(nowMs: number): Promise<readonly { readonly period: string; readonly status: string }[]>
  }
  /** The last verification of the log; undefined: none was run. */
  readonly lastVerification: () => Promise<LastVerification | undefined>
  readonly ownGateways: Pick<OwnGateways, 'silent'>
}

export type LastVerification = {
  readonly outcome: 'running' | 'clean' | 'differs' | 'failed'
  readonly startedAt: string
}

/** A verification that is older than this is repeated, milliseconds. */
const verifyAgainMs = 31 * dayMs

const verificationTexts: Readonly<Record<LastVerification['outcome'], string>> = {
  running: 'running',
  clean: 'no differences',
  differs: 'it found differences',
  failed: 'it did not finish',
}

const verificationText = (last: LastVerification | undefined): string =>
  last === undefined
    ? 'The log was never verified'
    : `Last verification of the log: ${verificationTexts[last.outcome]}, started ${last.startedAt.slice(0, 10)}`

/** Whether finance starts a verification, or reads its differences. */
const needsVerification = (last: LastVerification | undefined, nowMs: number): boolean =>
  last === undefined ||
  last.outcome === 'differs' ||
  last.outcome === 'failed' ||
  nowMs - Date.parse(last.startedAt) > verifyAgainMs

/** The first page of staff: what needs action, figures of finance, and whether the service is healthy. */
export const staffPages = ({
  db,
  pool,
  probes,
  queues,
  financeSummary,
  periods,
  lastVerification,
  ownGateways,
}: StaffReads): readonly ConsolePage[] => {
  const countOrders = async (status: 'failed' | 'processing', from: string, until: string): Promise<number> =>
    (
      await db
        .selectFrom('read.orders')
        .where('status', '=', status)
        .where('createdAt', '>=', from)
        .where('createdAt', '<', until)
        .select((eb) => eb.fn.countAll<number>().as('total'))
        .executeTakeFirstOrThrow()
    ).total

  const openChanges = async (): Promise<number> =>
    (
      await db
        .selectFrom('read.gateway_changes')
        .where('reviewedAt', 'is', null)
        .select((eb) => eb.fn.countAll<number>().as('total'))
        .executeTakeFirstOrThrow()
    ).total

  const openUnmatched = async (): Promise<number> =>
    (
      await db
        .selectFrom('read.unmatched_movements')
        .where('resolvedAt', 'is', null)
        .select((eb) => eb.fn.countAll<number>().as('total'))
        .executeTakeFirstOrThrow()
    ).total

  /** Tasks of finance, and the last verification of the log if it needs no action. */
  const readFinance = createSharedRead(async (nowMs: number) => {
    const [months, verification] = await Promise.all([periods.list(nowMs), lastVerification()])
    const endedMonths = months.filter(({ status }) => status === 'over')
    const text = verificationText(verification)
    const isTask = needsVerification(verification, nowMs)
    const tasks: readonly (AttentionItem | false)[] = [
      endedMonths.length > 0 && {
        text: `${countText(endedMonths.length, 'month')} over and not closed: ${endedMonths.map(({ period }) => period).join(', ')}`,
        href: '/console/finance/periods',
      },
      isTask && { text, href: verificationsPath },
    ]
    return { tasks, verified: isTask ? nothing : html`<p><a href="${verificationsPath}">${text}</a></p>` }
  })

  const reversalsPath = '/console/operator/reversals'

  /** Tasks of finance and operators about disputes and refunds. */
  const reversalTasks = async (nowMs: number): Promise<readonly (AttentionItem | false)[]> => {
    const since = isoTime(nowMs - failedDays * dayMs)
    const { blockedAccounts, disputes, openRefunds } = await countReversalTasks(db, {
      since,
      until: isoTime(nowMs - stuckMs),
    })
    return [
      blockedAccounts > 0 && {
        text: `${countText(blockedAccounts, 'account')} blocked after a dispute`,
        href: `${reversalsPath}?kind=chargeback&account=blocked`,
      },
      disputes > 0 && {
        text: `${countText(disputes, 'dispute')} in the last ${failedDays} days`,
        href: `${reversalsPath}?kind=chargeback&status=taken&from=${since.slice(0, 10)}`,
      },
      openRefunds > 0 && {
        text: `${countText(openRefunds, 'refund')} to payers in progress for more than 10 minutes`,
        href: `${reversalsPath}?kind=deposit_refund&status=requested`,
      },
    ]
  }

  const workTasks = async (nowMs: number): Promise<readonly (AttentionItem | false)[]> => {
    const failedFrom = isoTime(nowMs - failedDays * dayMs)
    const [stuck, failed, proposals, endpoints, changes, unmatched, silent, pools, deadExits, depths] =
      await Promise.all([
        countOrders('processing', isoTime(0), isoTime(nowMs - stuckMs)),
        countOrders('failed', failedFrom, isoTime(nowMs)),
        proposalsAfter(db, { waiting: true, after: null, limit: maxProposals, nowMs }),
        failingEndpoints(db, null, maxEndpoints),
        openChanges(),
        openUnmatched(),
        ownGateways.silent(nowMs),
        poolsAfter({ pool, clock: () => nowMs }, { after: null, limit: maxPools }),
        countDeadExits(db),
        Promise.all(queues.map((queue) => depthOf(pool, queue, nowMs))),
      ])
    const lowPools = pools.filter(({ available, total }) => available * 10 < total)
    return [
      stuck > 0 && {
        text: `${countText(stuck, 'order')} in progress for more than 10 minutes`,
        href: '/console/operator/orders?status=processing',
      },
      failed > 0 && {
        text: `${countText(failed, 'order')} failed in the last ${failedDays} days`,
        href: `/console/operator/orders?status=failed&from=${failedFrom.slice(0, 10)}`,
      },
      proposals.length > 0 && {
        text: `${countText(proposals.length, 'proposal')} waiting for approval`,
        href: '/console/operator/proposals',
      },
      endpoints.length > 0 && {
        text: `${countText(endpoints.length, 'webhook endpoint')} failing or disabled`,
        href: '/console/operator/webhooks',
      },
      changes > 0 && {
        text: `${countText(changes, 'report')} of payment providers without a review`,
        href: '/console/operator/gateway-changes',
      },
      unmatched > 0 && {
        text: `${countText(unmatched, 'movement')} at payment providers to resolve`,
        href: '/console/operator/unmatched',
      },
      ...silent.map((gateway) => ({
        text: `${gateway} sends no callbacks: its last payment was found without one`,
        href: `/console/operator/gateways/${gateway}`,
      })),
      lowPools.length > 0 && {
        text: `${countText(lowPools.length, 'pool')} of addresses with less than 10 % free`,
        href: '/console/operator/stock',
      },
      deadExits > 0 && {
        text: `${countText(deadExits, 'exit')} of the gateway not working`,
        href: '/console/operator/exits',
      },
      ...depths.map(
        ({ queue, dead }) =>
          dead > 0 && {
            text: `${countText(dead, 'failed item')} in the queue ${queue}`,
            href: `/console/operator/queues/${queue}`,
          },
      ),
    ]
  }

  /** The tasks that need read tables. While a read model is stopped, they may be unknown. */
  const readTasks = (
    tasks: Promise<readonly (AttentionItem | false)[]>,
    href: string,
  ): Promise<readonly (AttentionItem | false)[]> =>
    tasks.catch((error) => {
      if (unreadableTable(error) === null) throw error
      return [{ text: 'Some tasks cannot be shown until a read table is repaired', href }]
    })

  const sharedTasks = createSharedRead((nowMs: number) => readTasks(reversalTasks(nowMs), '/console/staff'))

  /** Tasks of operators. */
  const operatorTasks = createSharedRead(
    async (nowMs: number): Promise<readonly (AttentionItem | false)[]> => {
      const stopped = (await readStoppedModels(pool)).map((each) => ({
        text: stoppedText(each),
        href: `/console/operator/projections/${each.group}`,
      }))
      return [...stopped, ...(await readTasks(workTasks(nowMs), '/console/operator/projections'))]
    },
  )

  const checks = createSharedRead((_: 'all') =>
    Promise.all(probes.map(async (probe) => ({ name: probe.name, outcome: await probeOutcome(probe) }))),
  )

  return [
    staffPage({
      path: '/console/staff',
      name: 'showStaff',
      summary: 'The first page of staff: what needs action, and whether the service is healthy',
      show: async ({ visitor: { roles }, nowMs: visitMs }) => {
        const nowMs = secondOf(visitMs)
        const isOperator = roles.has('operator')
        const isFinance = roles.has('finance')
        const [shared, tasks, finance, summary, checked] = await Promise.all([
          sharedTasks(nowMs),
          isOperator ? operatorTasks(nowMs) : [],
          isFinance ? readFinance(nowMs) : { tasks: [], verified: nothing },
          isFinance ? financeSummary(nowMs) : nothing,
          checks('all'),
        ])
        return {
          title: 'Home',
          actions: isOperator ? buttonLink('/console/view', 'View an account') : nothing,
          body: html`<section class="card"><h2>Needs action</h2>${attentionList([...shared, ...tasks, ...finance.tasks])}</section>
${summary}
<h2>Service</h2>
${finance.verified}
${tableOf({
  caption: 'Checks of the service',
  rows: checked,
  empty: 'There are no checks.',
  columns: [
    nameColumn<Check>('Check', ({ name }) => ({ text: name })),
    stateColumn<Check>('State', ({ outcome }) => (outcome === 'ok' ? ['ok', 'good'] : [outcome, 'bad'])),
  ],
})}`,
          cliEquivalents: ['bin/farebox doctor', 'bin/farebox orders list', 'bin/farebox staff list'],
        }
      },
    }),
  ]
}

import type pg from 'pg'
import { planNames, plansAfter } from '../../../projections/plans.ts'
import { budgetPeriods } from '../../domain/plans/budget-periods.ts'
import { isTimeZone } from '../../kernel/calendar.ts'
import type { CustomerIdOf } from '../../kernel/external-id.ts'
import type { CustomerId } from '../../kernel/ids.ts'
import { type AccountScope, wholeAccount } from '../../kernel/scopes.ts'
import { ApiError, refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { type Choice, choicesFrom, selectOf } from '../../platform/ui/form.ts'
import { formPage, hiddenField, pageForm, selectField, textField } from '../../platform/ui/form-page.ts'
import type { View } from '../../platform/ui/frame.ts'
import { type Html, html } from '../../platform/ui/html.ts'
import { type Filters, listOf } from '../../platform/ui/list.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  fieldTextsOf,
  goTo,
  type PageOutcome,
  refused,
} from '../../platform/ui/page.ts'
import {
  detailsOf,
  idColumn,
  nameColumn,
  stateColumn,
  textColumn,
  timeColumn,
} from '../../platform/ui/table.ts'
import {
  afterText,
  type BadgeTone,
  buttonLink,
  bytesText,
  idText,
  queryText,
  softText,
  stateText,
  timeText,
  zones,
} from '../../platform/ui/text.ts'
import { customerColumn, customerLink, customersAfter, findCustomer } from '../accounts/index.ts'
import { maxWhitelist, networksOf, type Whitelist } from '../lines/index.ts'
import { type createFindPlan, type PlanFinder, planPath, type VerifiedPlan } from '../plans/index.ts'
import { maxLimitBytes, minLimitBytes } from './budget-limits.ts'
import type { TrafficBudgetRecord } from './budget-record.ts'
import { budgetPath } from './budget-text.ts'
import type { TrafficBudgets } from './budgets.ts'

const root = '/console/traffic-budgets'
const gb = 1_000_000_000
/** The plans and customers of a list to choose from. Older ones have a link on their own page. */
const maxChoices = 200

type NamedBudget = TrafficBudgetRecord & {
  /** The label or the product of its plan; null: all plans of a customer. */
  readonly planName: string | null
  /** The network of its whitelist entry; null: it has none, or the entry was removed. */
  readonly network: string | null
}

const stateOf = ({ usedBytes, limitBytes }: TrafficBudgetRecord): readonly [string, BadgeTone] => {
  if (usedBytes >= limitBytes) return ['used up', 'bad']
  return usedBytes * 100 >= limitBytes * 80 ? ['nearly used', 'warn'] : ['within limit', 'good']
}

/** The use of a budget, as figures and as a bar. */
const useOf = ({ usedBytes, limitBytes }: TrafficBudgetRecord): Html =>
  html`${bytesText(usedBytes)} <small>of ${bytesText(limitBytes)}</small><br><meter min="0" max="${limitBytes}" low="${limitBytes * 0.8 - 1}" high="${limitBytes - 1}" optimum="0" value="${Math.min(usedBytes, limitBytes)}" aria-label="used of the budget"></meter>`

const periodText = ({ period, timeZone }: TrafficBudgetRecord): string => `${period}, ${timeZone}`

const targetName = ({ scope, lineSet, whitelistEntryId, ...budget }: NamedBudget): string => {
  switch (scope) {
    case 'plan':
      return `Plan ${budget.planName}`
    case 'line_set':
      return `Line set ${lineSet}`
    case 'whitelist_entry':
      return `Address ${budget.network ?? whitelistEntryId}`
    case 'customer':
      return `All plans of ${budget.customer ?? budget.customerId}`
    default:
      return scope satisfies never
  }
}

const limitForm = `It must be a number of GB from ${minLimitBytes / gb} to ${maxLimitBytes / gb}, such as 5 or 0.5.`

/** Gigabytes with up to six decimals as bytes; a problem for anything else. */
const parseLimit = (text: string): number | { readonly problem: string } => {
  const bytes = /^\d{1,7}(\.\d{1,6})?$/.test(text) ? Math.round(Number(text) * gb) : 0
  return bytes >= minLimitBytes && bytes <= maxLimitBytes ? bytes : { problem: limitForm }
}

const limitField = (limitBytes: number | null) =>
  textField({
    label: 'Limit, GB',
    hint: 'In both directions. 1 GB is 1,000,000,000 bytes.',
    required: true,
    inputmode: 'decimal',
    maxlength: 14,
    value: limitBytes === null ? '' : String(limitBytes / gb),
    parse: parseLimit,
  })

const zoneField = (zone: string, hint: string) =>
  selectField({
    label: 'Time zone',
    hint,
    value: zone,
    // The API accepts more names than this list has.
    choices: choicesFrom([...new Set([zone, 'UTC', ...zones])].filter(isTimeZone)),
  })

const effect =
  'When it is used up, the gateway ends the connections and refuses new ones until the next period. You get an e-mail at 80 % and at 100 %.'

/** Traffic budgets of an account: their use, and forms to set, reset and remove them. */
export const budgetPages = ({
  trafficBudgets,
  planOf,
  planFinder: { nameOf },
  whitelist,
  customers,
  pool,
  db,
  reads,
}: {
  readonly trafficBudgets: TrafficBudgets
  readonly planOf: ReturnType<typeof createFindPlan>
  readonly planFinder: Pick<PlanFinder, 'nameOf'>
  readonly whitelist: Pick<Whitelist, 'list'>
  readonly customers: { readonly idOf: CustomerIdOf }
  readonly pool: pg.Pool
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
}): readonly ConsolePage[] => {
  const withNames = async (
    { account: { accountId } }: AccountVisit,
    budgets: readonly TrafficBudgetRecord[],
  ): Promise<readonly NamedBudget[]> => {
    const planIds = budgets.flatMap(({ planId }) => planId ?? [])
    const [plans, networks] = await Promise.all([
      planNames(db, wholeAccount(accountId), planIds),
      networksOf(
        pool,
        accountId,
        budgets.flatMap(({ whitelistEntryId }) => whitelistEntryId ?? []),
      ),
    ])
    const names = new Map(plans.map((plan) => [plan.planId, nameOf(plan)]))
    return budgets.map((budget) => ({
      ...budget,
      planName: budget.planId && (names.get(budget.planId) ?? budget.planId),
      network: networks.get(budget.whitelistEntryId ?? '') ?? null,
    }))
  }

  /** @throws not_found for an absent budget and for one of another account */
  const budgetOf = async (visit: AccountVisit): Promise<NamedBudget> => {
    const { accountId } = visit.account
    await reads.settled(accountId)
    const record = await trafficBudgets.get(wholeAccount(accountId), visit.params.id ?? '')
    const [budget] = await withNames(visit, [record])
    return budget!
  }

  /** Sets a budget of a plan or a customer that exists. The problem is a missing part of the plan. */
  const set = async (
    ...wanted: Parameters<TrafficBudgets['set']>
  ): Promise<Awaited<ReturnType<TrafficBudgets['set']>> | { readonly problem: string }> => {
    try {
      return await trafficBudgets.set(...wanted)
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'not_found') throw error
      return {
        problem:
          wanted[1].lineSet === undefined
            ? 'This address is no longer on the whitelist of the plan.'
            : 'The plan has no line set with this id.',
      }
    }
  }

  const filtersOf = ({ account }: AccountVisit): Filters => ({
    plan: { label: 'Plan', hint: 'pln_…' },
    ...(account.reseller && { customer: { label: 'Customer', hint: 'your id, or cus_…' } }),
  })

  const showList = async (visit: AccountVisit): Promise<View | PageOutcome> => {
    const { account, query } = visit
    const { accountId, reseller } = account
    const list = await listOf(visit, {
      caption: 'Traffic budgets',
      filters: filtersOf(visit),
      file: 'traffic-budgets',
      load: async (_visit, { plan, customer, search: _, ...page }) => {
        await reads.settled(accountId)
        const customerId =
          customer === undefined || customer.startsWith('cus_')
            ? ((customer ?? null) as CustomerId | null)
            : customers.idOf(accountId, customer)
        const scope: AccountScope = { accountId, customerId: reseller ? customerId : null }
        return withNames(visit, await trafficBudgets.after(scope, { ...page, planId: plan }))
      },
      keyOf: ({ createdAt, id }) => afterText(createdAt, id),
      columns: (_) => [
        nameColumn('Limits', (budget) => ({
          text: targetName(budget),
          href: budgetPath(budget.id),
          note: budget.scope === 'plan' ? null : budget.planName,
        })),
        {
          title: 'Used',
          number: true,
          place: 'lead',
          value: ({ usedBytes }) => usedBytes,
          cell: useOf,
        },
        { title: 'Limit, bytes', place: 'file', value: ({ limitBytes }) => limitBytes, cell: () => null },
        stateColumn('State', stateOf),
        textColumn('Period', periodText),
        timeColumn('Resets', ({ resetsAt }) => resetsAt),
        {
          title: 'Plan',
          value: ({ planId }) => planId,
          cell: ({ planId }) => (planId === null ? softText('all') : idText(planId, planPath(planId))),
        },
        ...(reseller ? [customerColumn(({ customerId }: NamedBudget) => customerId)] : []),
        timeColumn('Created', ({ createdAt }) => createdAt, { place: 'file' }),
        idColumn('Budget id', ({ id }) => id, { place: 'file' }),
      ],
      empty: 'There are no traffic budgets yet. A budget limits the traffic of a day, a week or a month.',
    })
    if (list.file !== null) return list.file
    const chosen = Object.fromEntries(
      ['plan', 'customer'].flatMap((name) => (query.get(name) ? [[name, query.get(name)!]] : [])),
    )
    return {
      title: 'Traffic budgets',
      actions: html`${buttonLink(`${root}/new${queryText(chosen)}`, 'New budget', 'first')}${list.fileLink}`,
      body: list.body,
      cliEquivalents: ['curl $API/traffic-budgets -H "X-API-Key: $KEY"'],
    }
  }

  /** The form that chooses a plan or, for resellers, a customer. It leads to the form of the budget. */
  const chooseTarget = async ({ account, nowMs, form }: AccountVisit): Promise<View> => {
    const { accountId, reseller } = account
    await reads.settled(accountId)
    const newest = { after: null, limit: maxChoices, search: '' }
    const [plans, customerRecords] = await Promise.all([
      plansAfter(db, wholeAccount(accountId), { ...newest, status: 'active', search: null }, nowMs),
      reseller ? customersAfter(pool, accountId, newest) : [],
    ])
    const choice = (name: string, label: string, choices: readonly Choice[]): Html =>
      html`<form method="get" action="${root}/new" class="stack">
${selectOf({ name, label, choices }, form)}
<div class="actions"><button>Continue</button></div>
</form>`
    const planChoices = plans.map((plan) => ({
      value: plan.planId,
      label: `${nameOf(plan)}, ${plan.planId.slice(0, 10)}…`,
    }))
    const customerChoices = customerRecords.map(({ customerId, ref, label }) => ({
      value: customerId,
      label: label ?? ref ?? customerId,
    }))
    return {
      title: 'New traffic budget',
      body: html`<p>A budget limits the traffic of a day, a week or a month. ${effect}</p>
${plans.length === 0 ? html`<p>You have no active plan. ${buttonLink('/console/catalogue', 'Buy a plan')}</p>` : choice('plan', 'For a plan', planChoices)}
${customerChoices.length === 0 ? null : choice('customer', 'For all plans of a customer', customerChoices)}`,
    }
  }

  type Target =
    | { readonly plan: VerifiedPlan; readonly customerId: null; readonly name: string }
    | { readonly plan: null; readonly customerId: CustomerId; readonly name: string }

  /** The chosen plan or customer; null: none was chosen. @throws not_found */
  const targetOf = async (visit: AccountVisit): Promise<Target | null> => {
    const { accountId, reseller } = visit.account
    const text = fieldTextsOf(visit)
    const [planId, customerId] = [text('plan'), text('customer')]
    if (planId !== '') {
      const plan = await planOf(wholeAccount(accountId), planId, null)
      return { plan, customerId: null, name: nameOf(plan) }
    }
    if (customerId === '' || !reseller) return null
    const id = customerId.startsWith('cus_') ? customerId : customers.idOf(accountId, customerId)
    const customer = await findCustomer(pool, accountId, id)
    if (customer === null) throw refuse('not_found', 'you have no customer with this id')
    const { label, ref } = customer
    return { plan: null, customerId: customer.customerId, name: label ?? ref ?? customer.customerId }
  }

  const newBudgetForm = async (visit: AccountVisit, { plan, customerId, name }: Target) => {
    const { account, cause, zone } = visit
    const { accountId } = account
    const entries =
      plan === null ? [] : (await whitelist.list(plan.planId, { limit: maxWhitelist, offset: 0 })).entries
    const chosen = plan === null ? { customer: customerId } : { plan: plan.planId }
    const body = { ...(plan && { planId: plan.planId }), period: 'day', limitBytes: 5 * gb }
    const header = plan === null ? ` -H "X-Reseller-Customer-Id: ${name.replaceAll(/[^\w.@-]/g, '')}"` : ''
    const choices = [
      { value: '', label: 'all' },
      ...entries.map(({ id, cidr, label }) => ({
        value: id,
        label: label === '' ? cidr : `${cidr} ${label}`,
      })),
    ]
    return pageForm({
      title: `Traffic budget for ${name}`,
      intro: html`<p>${effect}</p>`,
      fields: {
        plan: hiddenField(plan?.planId ?? ''),
        customer: hiddenField(customerId ?? ''),
        ...(plan && {
          set: textField({
            label: 'Only a line set',
            hint: 'The id after -set- in the usernames of its lines. Empty: all lines.',
            maxlength: 20,
          }),
        }),
        ...(entries.length > 0 && {
          entry: selectField({ label: 'Only a whitelisted address', choices, value: '' }),
        }),
        period: selectField({
          label: 'Period',
          hint: 'A week begins on Monday.',
          choices: budgetPeriods.map((value) => ({ value, label: value })),
          value: 'day',
        }),
        zone: zoneField(zone ?? 'UTC', 'A period begins at midnight of this zone.'),
        limit: limitField(null),
      },
      submit: 'Set budget',
      back: `${root}${queryText(chosen)}`,
      cliEquivalents: [
        `curl -X PUT $API/traffic-budgets -H "X-API-Key: $KEY"${header} --json '${JSON.stringify(body)}'`,
      ],
      run: async ({ set: lineSet = '', entry = '', period, zone: timeZone, limit: limitBytes }) => {
        if (lineSet !== '' && entry !== '')
          return refused({ set: 'Choose a line set or an address, not both.' })
        const changed = await set(
          { accountId, customerId },
          {
            planId: plan?.planId,
            ...(lineSet !== '' && { lineSet }),
            ...(entry !== '' && { whitelistEntryId: entry }),
            period,
            timeZone,
            limitBytes,
          },
          cause,
        )
        if ('problem' in changed) return refused({ [lineSet === '' ? 'entry' : 'set']: changed.problem })
        const { id, isNew } = changed
        return goTo(
          budgetPath(id),
          isNew ? 'The budget is set.' : 'This budget existed already. Its limit and its time zone are set.',
        )
      },
    })
  }

  const detailsOfBudget = (budget: NamedBudget): Html => {
    const { id, planId, planName, lineSet, whitelistEntryId, network, customerId, customer } = budget
    return detailsOf([
      ['State', stateText(...stateOf(budget))],
      ['Used', useOf(budget)],
      ['Plan', planId && html`<a href="${planPath(planId)}">${planName}</a>`],
      ['Line set', lineSet && idText(lineSet)],
      [
        'Address',
        whitelistEntryId &&
          html`<a href="${planPath(planId ?? '', '/whitelist')}">${network ?? 'no longer on the whitelist'}</a>`,
      ],
      ['Customer', customerId && customerLink(customerId, customer)],
      ['Period', periodText(budget)],
      ['Counted since', timeText(budget.countedFrom)],
      ['Resets', timeText(budget.resetsAt)],
      ['Budget', idText(id)],
    ])
  }

  const confirmPage = (
    action: 'reset' | 'remove',
    texts: {
      readonly summary: string
      readonly title: string
      readonly effect: string
      readonly flash: string
    },
    page: { readonly submit: string; readonly method: string; readonly danger?: true },
  ): ConsolePage =>
    formPage(accountPage, {
      path: `${root}/{id}/${action}`,
      name: action === 'reset' ? 'resetTrafficBudget' : 'removeTrafficBudget',
      summary: texts.summary,
      form: async (visit) => {
        const budget = await budgetOf(visit)
        const { accountId } = visit.account
        return pageForm({
          title: texts.title,
          intro: html`${detailsOfBudget(budget)}
<p>${texts.effect}</p>`,
          submit: page.submit,
          ...(page.danger && { danger: page.danger }),
          back: budgetPath(budget.id),
          backLabel: 'Not now',
          cliEquivalents: [
            `curl -X ${page.method} $API/traffic-budgets/${budget.id}${action === 'reset' ? '/reset' : ''} -H "X-API-Key: $KEY"`,
          ],
          run: async () => {
            await trafficBudgets[action](wholeAccount(accountId), budget.id, visit.cause)
            return goTo(action === 'reset' ? budgetPath(budget.id) : root, texts.flash)
          },
        })
      },
    })

  return [
    accountPage({
      path: root,
      name: 'listTrafficBudgets',
      summary: 'Limits for the traffic of a day, a week or a month',
      crumb: 'Traffic budgets',
      show: showList,
    }),
    accountPage({
      path: `${root}/new`,
      name: 'newTrafficBudget',
      summary: 'Sets a traffic budget of a plan or a customer',
      show: async (visit) => {
        const target = await targetOf(visit)
        return target === null ? chooseTarget(visit) : (await newBudgetForm(visit, target)).show(visit.form)
      },
      act: {
        run: async (visit, typed) => {
          const target = await targetOf({ ...visit, form: { ...visit.form, typed } })
          return target === null
            ? refused({ form: 'Choose a plan or a customer.' })
            : (await newBudgetForm(visit, target)).run(typed)
        },
      },
    }),
    formPage(accountPage, {
      path: `${root}/{id}`,
      name: 'showTrafficBudget',
      crumb: 'Budget',
      summary: 'One traffic budget with its use',
      form: async (visit) => {
        const budget = await budgetOf(visit)
        const { id, customerId, planId, limitBytes, period } = budget
        return pageForm({
          title: `${targetName(budget)} per ${period}`,
          actions: html`${buttonLink(budgetPath(id, '/reset'), 'Reset')}${buttonLink(budgetPath(id, '/remove'), 'Remove', 'danger')}`,
          intro: html`${detailsOfBudget(budget)}
<h2>Change</h2>`,
          fields: {
            limit: limitField(limitBytes),
            zone: zoneField(
              budget.timeZone,
              'A period begins at midnight of this zone. Another zone begins a new count.',
            ),
          },
          submit: 'Save',
          back: root,
          cliEquivalents: [`curl $API/traffic-budgets/${id} -H "X-API-Key: $KEY"`],
          run: async ({ limit, zone }) => {
            const changed = await set(
              {
                accountId: visit.account.accountId,
                customerId: planId === null ? (customerId as CustomerId) : null,
              },
              {
                planId: planId ?? undefined,
                lineSet: budget.lineSet ?? undefined,
                whitelistEntryId: budget.whitelistEntryId ?? undefined,
                period,
                timeZone: zone,
                limitBytes: limit,
              },
              visit.cause,
            )
            if ('problem' in changed) return refused({ form: changed.problem })
            return goTo(budgetPath(id), 'The budget is changed.')
          },
        })
      },
    }),
    confirmPage(
      'reset',
      {
        summary: 'Begins the count of a traffic budget again at 0',
        title: 'Reset a traffic budget',
        effect: 'The count begins again at 0. The next period begins at the same time as before.',
        flash: 'The budget is reset.',
      },
      { submit: 'Reset budget', method: 'POST' },
    ),
    confirmPage(
      'remove',
      {
        summary: 'Removes a traffic budget',
        title: 'Remove a traffic budget',
        effect:
          'The traffic is no longer limited. A new budget for the same target continues the count of the period.',
        flash: 'The budget is removed.',
      },
      { submit: 'Remove budget', method: 'DELETE', danger: true },
    ),
  ]
}

import type { ApiError } from '../../platform/http/errors.ts'
import { refusalOf } from '../../platform/ui/answer-page.ts'
import type { Assets } from '../../platform/ui/assets.ts'
import {
  emptyFormInput,
  type FormInput,
  fieldOf,
  hiddenOf,
  type Problems,
  problemsOf,
} from '../../platform/ui/form.ts'
import { html } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  goTo,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import { tableOf } from '../../platform/ui/table.ts'
import { timeText } from '../../platform/ui/text.ts'
import type { CurrentLocations } from '../exits/index.ts'
import { backToPlan, type PlanFinder, planCall, planPath, type VerifiedPlan } from '../plans/index.ts'
import { locationPickers, readLocationFields } from './line-pages.ts'
import { toTargetingInput } from './targeting-input.ts'
import {
  type AddToWhitelist,
  maxWhitelist,
  networkForm,
  type Whitelist,
  type WhitelistEntry,
} from './whitelist.ts'

const maxLabel = 64

/** The targeting of an entry, in the words of line generation. */
const targetingText = ({ targeting }: WhitelistEntry): string => {
  const fieldTexts = Object.entries(targeting === null ? {} : toTargetingInput(targeting))
  return fieldTexts.length === 0
    ? 'anywhere'
    : fieldTexts.map(([name, value]) => `${name} ${value}`).join(', ')
}

const fieldOfCode: Readonly<Record<string, string>> = {
  invalid_ip: 'cidr',
  address_taken: 'cidr',
  invalid_targeting: 'country',
}

/** The addresses that use a plan without credentials. */
export const whitelistPages = ({
  planFinder,
  locations,
  whitelist,
  addToWhitelist,
  island,
}: {
  readonly planFinder: PlanFinder
  readonly locations: CurrentLocations
  readonly whitelist: Pick<Whitelist, 'list' | 'remove'>
  readonly addToWhitelist: AddToWhitelist
  readonly island: Assets['island']
}): readonly ConsolePage[] => {
  const { planOf, nameOf } = planFinder

  const view = async (
    visit: AccountVisit,
    plan: VerifiedPlan,
    text: (name: string) => string,
    problems: Problems,
  ) => {
    // All entries: an account has no more on all of its plans.
    const { entries } = await whitelist.list(plan.planId, { limit: maxWhitelist, offset: 0 })
    const path = planPath(plan.planId, '/whitelist')
    const { address } = visit.browser
    const { fields } = await locationPickers({ planFinder, locations }, plan, text, problems)
    return {
      title: `Whitelist of ${nameOf(plan)}`,
      acts: backToPlan(plan),
      body: html`<p>Connections from these addresses use the plan when they send no credentials. An account has up to ${maxWhitelist} of them; an address is on the whitelist of one plan.</p>
${tableOf({
  caption: 'Addresses that need no credentials, newest first',
  rows: entries,
  empty: html`<p>None yet.</p>`,
  columns: [
    { title: 'Network', head: true, cell: ({ cidr }) => html`<code>${cidr}</code>` },
    { title: 'Label', cell: ({ label }) => label },
    { title: 'Goes out', cell: targetingText },
    { title: 'Added', cell: ({ createdAt }) => timeText(createdAt) },
    { title: 'Last used', cell: ({ lastUsedAt }) => timeText(lastUsedAt) },
    {
      title: 'Act',
      cell: ({ id, cidr }) =>
        html`<form method="post" action="${path}">${hiddenOf('remove', id)}<button class="plain">Remove <span class="skip">${cidr}</span></button></form>`,
    },
  ],
})}
<h2>Add one</h2>
${problemsOf(problems)}
<live-parts><form method="post" action="${path}" class="stack" data-asks novalidate>
${fieldOf({ name: 'cidr', label: 'Address or network', hint: `It is ${networkForm}. You come from ${address} now.`, required: true, maxlength: 64, value: text('cidr') }, emptyFormInput, problems)}
${fieldOf({ name: 'label', label: 'Label', maxlength: maxLabel, value: text('label') }, emptyFormInput, problems)}
${fields}
<label class="choice"><input type="checkbox" name="move" value="yes"${text('move') === 'yes' ? { html: ' checked' } : null}> <span>Take it from another plan of mine</span></label>
<div class="acts"><button class="first">Add</button> <button formmethod="get">Show regions and cities</button></div>
</form></live-parts>`,
      scripts: [island('live-parts')],
      same: [
        `curl ${planCall(plan, '/whitelist')} -H "X-API-Key: $KEY"`,
        `curl ${planCall(plan, '/whitelist')} -H "X-API-Key: $KEY" --json '{"entries": [{"cidr": "203.0.113.7", "label": "office"}]}'`,
        `curl -X DELETE ${planCall(plan, '/whitelist/ENTRY')} -H "X-API-Key: $KEY"`,
      ],
    }
  }

  const change = async (visit: AccountVisit, typed: FormInput) => {
    const plan = await planOf(visit)
    const path = planPath(plan.planId, '/whitelist')
    const removed = typed.text('remove')
    if (removed !== '') {
      const planRef = { planId: plan.planId, accountId: visit.account.accountId }
      const wasRemoved = await whitelist.remove(planRef, removed, visit.cause)
      return goTo(path, wasRemoved ? 'It is off the whitelist.' : 'It was not on the whitelist any more.')
    }
    const label = typed.text('label')
    const problems: Problems = {
      ...(typed.text('cidr') === '' && { cidr: `Type ${networkForm}.` }),
      ...(label.length > maxLabel && { label: `A label has at most ${maxLabel} characters.` }),
    }
    if (Object.keys(problems).length > 0) return refusedView(await view(visit, plan, typed.text, problems))
    const locationInput = readLocationFields(typed.text)
    try {
      await addToWhitelist(
        plan,
        visit.account.accountId,
        {
          entries: [
            {
              cidr: typed.text('cidr'),
              label,
              ...(Object.keys(locationInput).length > 0 && { targeting: locationInput }),
            },
          ],
          move: typed.text('move') === 'yes',
        },
        visit.cause,
      )
      return goTo(path, 'It is on the whitelist.')
    } catch (error) {
      const { text, status } = refusalOf(error)
      const { code } = error as ApiError
      const problemTexts = {
        [fieldOfCode[code] ?? 'form']: code === 'invalid_ip' ? `It must be ${networkForm}.` : text,
      }
      return refusedView(await view(visit, plan, typed.text, problemTexts), status)
    }
  }

  return [
    accountPage({
      path: '/console/plans/{id}/whitelist',
      name: 'whitelistPlan',
      summary: 'The addresses that use a plan without credentials',
      show: async (visit) =>
        show(await view(visit, await planOf(visit), (name) => visit.query.get(name)?.trim() ?? '', {})),
      act: { run: change },
    }),
  ]
}

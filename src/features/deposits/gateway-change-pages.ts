import { listGatewayChanges } from '../../../projections/deposits.ts'
import type { DepositId } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { CaughtUp } from '../../platform/projections/read-your-writes.ts'
import { type FormInput, hiddenOf, type Problems, problemsOf } from '../../platform/ui/form.ts'
import { html } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  goTo,
  type PersonVisit,
  personPage,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import { pageRows, pagerOf, tableOf } from '../../platform/ui/table.ts'
import { idText, timeText } from '../../platform/ui/text.ts'
import { linkedText } from '../finance/index.ts'
import { isReference } from '../wallet/index.ts'
import { changeTexts, reviewChange } from './gateway-changes.ts'

const root = '/console/operator/gateway-changes'
const maxOffset = 1_000_000

/** Changes that payment providers reported and no event books, until an operator closes them. */
export const gatewayChangePages = ({
  db,
  caughtUp,
  runner,
}: {
  readonly db: Db
  readonly caughtUp: CaughtUp
  readonly runner: CommandRunner
}): readonly ConsolePage[] => {
  const view = async ({ query, visitor }: PersonVisit, problems: Problems) => {
    const showAll = query.get('show') === 'all'
    const from = Number(/^\d{1,7}$/.exec(query.get('before') ?? '')?.[0] ?? 0)
    const offset = Math.min(from, maxOffset)
    await caughtUp()
    const changeRows = await listGatewayChanges(db, { all: showAll, limit: pageRows + 1, offset })
    const next = changeRows.length > pageRows ? String(offset + pageRows) : null
    return {
      title: 'Changes at payment providers',
      body: html`${problemsOf(problems)}
<p>What providers say of deposits and nothing books by itself: refunds, money in other currencies, invoices that were marked by hand. No wallet moved. Correct wallets where that is due, then close the line.</p>
<p>${showAll ? html`<a href="${root}">Only what is open</a>` : html`<a href="${root}?show=all">Closed ones too</a>`}</p>
${tableOf({
  caption: showAll ? 'Changes, the last reported first' : 'Open changes, the last reported first',
  rows: changeRows.slice(0, pageRows),
  empty: html`<p>${showAll ? 'Nothing was reported yet.' : 'Nothing is open.'}</p>`,
  columns: [
    {
      title: 'What happened',
      head: true,
      cell: ({ change, reference, amount }) =>
        html`${changeTexts[change]}<br><small><code>${reference}</code>${amount === null ? null : `, ${amount}`}</small>`,
    },
    {
      title: 'Deposit',
      cell: ({ depositId: id, accountId: account }) =>
        html`${idText(id)}<br>${linkedText(account, visitor.roles)}`,
    },
    { title: 'Gateway', cell: ({ gatewayId: gateway }) => html`<code>${gateway}</code>` },
    { title: 'Reported', cell: ({ reportedAt: at }) => timeText(at) },
    {
      title: 'Close',
      cell: ({ depositId: id, number, reviewedAt: at, note }) =>
        at !== null
          ? html`${timeText(at)}<br><small>${note}</small>`
          : html`<form method="post" class="inline">${hiddenOf('deposit', id)}${hiddenOf('number', number)}<label class="skip" for="note-${id}-${number}">What was done about it</label><input id="note-${id}-${number}" name="note" maxlength="200" placeholder="What was done" required> <button>Close</button></form>`,
    },
  ],
})}
${pagerOf(root, showAll ? { show: 'all' } : {}, { before: offset === 0 ? null : String(offset), next })}`,
      same: ['npx farebox deposits changes', 'npx farebox deposits review DEPOSIT NUMBER --note TEXT'],
    }
  }

  const close = async (visit: PersonVisit, typed: FormInput) => {
    const note = typed.text('note')
    if (!isReference(note))
      return refusedView(
        await view(visit, { form: 'Say what was done about it: at most 200 characters, in one line.' }),
      )
    const depositId = typed.text('deposit') as DepositId
    const answer = await reviewChange(
      runner,
      { depositId, number: Number(typed.text('number')), note },
      visit.cause,
    )
    if (answer === 'unknown_change')
      return refusedView(await view(visit, { form: 'No deposit has this change.' }), 409)
    return goTo(root, answer === 'reviewed' ? 'It is closed.' : 'It was closed before.')
  }

  return [
    personPage({
      for: ['operator'],
      path: root,
      name: 'listGatewayChanges',
      summary: 'What payment providers said and nothing books',
      nav: { label: 'Changes at providers', group: 'Operator' },
      show: async (visit) => show(await view(visit, {})),
      act: { run: close },
    }),
  ]
}

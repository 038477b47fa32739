import { listUnmatchedMovements, type UnmatchedMovementRow } from '../../../projections/deposits.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { CaughtUp } from '../../platform/projections/read-your-writes.ts'
import { formPage, pageForm, textField } from '../../platform/ui/form-page.ts'
import { html } from '../../platform/ui/html.ts'
import { pageRows, pagerOf } from '../../platform/ui/list.ts'
import { type ConsolePage, goTo, operatorPage, type PersonVisit, refused } from '../../platform/ui/page.ts'
import { detailsOf, tableOf } from '../../platform/ui/table.ts'
import { idText, timeText } from '../../platform/ui/text.ts'
import { linkedText } from '../finance/index.ts'
import { isReference, proposalPath } from '../wallet/index.ts'
import { itemAmount, resolutionRefusal, resolveUnmatched } from './unmatched-movements.ts'

const path = '/console/operator/unmatched'
const maxOffset = 1_000_000

const kindText = { deposit_refund: 'refund', chargeback: 'dispute' } as const

const kindOf = (reason: UnmatchedMovementRow['reason']): string =>
  reason === null ? 'object that cannot be read' : kindText[reason]

/** Refunds and disputes without a known deposit: their list, and the page that resolves one. */
export const unmatchedPages = ({
  db,
  runner,
  caughtUp,
}: {
  readonly db: Db
  readonly runner: CommandRunner
  readonly caughtUp: CaughtUp
}): readonly ConsolePage[] => {
  const itemOf = async ({ params }: PersonVisit) => {
    await caughtUp()
    const item = await db
      .selectFrom('read.unmatched_movements')
      .selectAll()
      .where('itemId', '=', params.id ?? '')
      .executeTakeFirst()
    if (!item) throw refuse('not_found', 'no item has this id')
    return item
  }

  return [
    operatorPage({
      path,
      name: 'listUnmatchedMovements',
      summary: 'Refunds and disputes at payment providers without a known deposit',
      show: async ({ query, visitor }) => {
        const all = query.get('show') === 'all'
        const from = Number(/^\d{1,7}$/.exec(query.get('before') ?? '')?.[0] ?? 0)
        const offset = Math.min(from, maxOffset)
        await caughtUp()
        const rows = await listUnmatchedMovements(db, { all, limit: pageRows + 1, offset })
        const next = rows.length > pageRows ? String(offset + pageRows) : null
        return {
          title: 'Movements without a deposit',
          body: html`<p>Refunds and disputes that moved money at the service's payment gateways, and whose deposit is not known, and objects that cannot be read. No wallet changed. Book each to an account, or resolve it with a reason.</p>
<p>${all ? html`<a href="${path}">Show open ones only</a>` : html`<a href="${path}?show=all">Show resolved ones too</a>`}</p>
${tableOf({
  caption: all ? 'Movements, latest first' : 'Open movements, latest first',
  rows: rows.slice(0, pageRows),
  empty: all ? 'Nothing was reported yet.' : 'There are no open movements.',
  columns: [
    {
      title: 'Movement',
      head: true,
      cell: ({ reason, reference }) => html`${kindOf(reason)}<br><small><code>${reference}</code></small>`,
    },
    { title: 'Amount', cell: itemAmount },
    { title: 'At the provider', cell: ({ happenedAt }) => happenedAt && timeText(happenedAt) },
    {
      title: 'Resolved',
      cell: ({ itemId, resolvedAt, accountId, note }) =>
        resolvedAt === null
          ? html`<a href="${path}/${itemId}">Resolve</a>`
          : html`${timeText(resolvedAt)}<br>${accountId && linkedText(accountId, visitor.roles)} <small>${note}</small>`,
    },
  ],
})}
${pagerOf(path, all ? { show: 'all' } : {}, { before: offset === 0 ? null : String(offset), next })}`,
          cliEquivalents: ['bin/farebox deposits unmatched'],
        }
      },
    }),
    formPage(operatorPage, {
      path: `${path}/{id}`,
      name: 'resolveUnmatchedMovement',
      summary: 'Resolves a movement without a known deposit, or books it to an account',
      confirmed: true,
      act: { once: true },
      form: async (visit) => {
        const item = await itemOf(visit)
        const { itemId, reason, reference, happenedAt } = item
        const amount = itemAmount(item)
        const kind = kindOf(reason)
        return pageForm({
          title: reason === null ? `Resolve an ${kind}` : `Resolve a ${kind} of ${amount}`,
          intro: html`${detailsOf([
            ['Kind', kind],
            ['Amount', amount],
            ['Reference', html`<code>${reference}</code>`],
            ['At the provider', happenedAt && timeText(happenedAt)],
            ['Item', idText(itemId)],
          ])}
<p class="soft">With an account, its wallet moves by the amount at once. What it does not cover is owed, and a dispute blocks the account.</p>`,
          fields: {
            account: textField({
              label: 'Account',
              hint: 'Optional. Empty: no wallet moves.',
              maxlength: 36,
              parse: (text) =>
                text === '' || /^acc_[0-9a-f]{32}$/.test(text)
                  ? text
                  : { problem: 'Type the id of an account, acc_….' },
            }),
            reason: textField({
              label: 'Reason',
              hint: 'It stays in the log: do not include personal data.',
              required: true,
              maxlength: 200,
              parse: (text) =>
                isReference(text) ? text : { problem: 'Give a reason of at most 200 characters.' },
            }),
          },
          submit: reason === null ? 'Resolve' : `Resolve ${amount}`,
          danger: true,
          back: path,
          cliEquivalents: [
            `bin/farebox deposits resolve ${itemId} --reason WHY`,
            `bin/farebox deposits resolve ${itemId} --reason WHY --account ACCOUNT`,
          ],
          run: async ({ account, reason: note }) => {
            const accountId = account === '' ? null : (account as AccountId)
            const answer = await resolveUnmatched(runner, { itemId, accountId, note }, visit.cause)
            switch (answer.outcome) {
              case 'proposed':
              case 'not_proposed':
                return goTo(
                  proposalPath(answer.proposal.proposalId),
                  'No money was moved yet: this booking needs a second approver. Another operator must approve it.',
                )
              case 'refused':
                return refused({ form: `It was refused: ${resolutionRefusal(answer.refusal).message}.` }, 409)
              case 'resolved':
                return goTo(
                  path,
                  accountId === null ? 'The item is resolved.' : 'The item is booked and resolved.',
                )
              default:
                return answer satisfies never
            }
          },
        })
      },
    }),
  ]
}

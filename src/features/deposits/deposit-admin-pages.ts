import type pg from 'pg'
import { depositsAfter } from '../../../projections/deposits.ts'
import { refundableCents, refundHindrance } from '../../domain/deposits/decide-refund.ts'
import { type Deposit, shownDepositStatus, shownDepositStatuses } from '../../domain/deposits/fold.ts'
import { ledgerRef } from '../../domain/ledger/fold.ts'
import type { DepositId } from '../../kernel/ids.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import { allAccounts } from '../../kernel/scopes.ts'
import { type CommandRunner, readState } from '../../platform/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { CaughtUp } from '../../platform/projections/read-your-writes.ts'
import { type FormInput, fieldOf, formOf, hiddenOf, problemsIn } from '../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import { labelled, listPage } from '../../platform/ui/list.ts'
import {
  type ConsolePage,
  type FormRefusal,
  fieldTextsOf,
  goTo,
  operatorPage,
  type PageOutcome,
  type PersonVisit,
  refused,
  staffPage,
} from '../../platform/ui/page.ts'
import { amountColumn, detailsOf, nameColumn } from '../../platform/ui/table.ts'
import {
  afterText,
  amountText,
  buttonLink,
  dollarText,
  idText,
  parseCents,
  queryText,
} from '../../platform/ui/text.ts'
import { emailsOf } from '../accounts/index.ts'
import { chainOf, explainResource, type JournalHead } from '../finance/index.ts'
import { isReference, notProposedText, proposalPath } from '../wallet/index.ts'
import { depositColumns } from './deposit-pages.ts'
import { depositRecord, depositState, railName } from './deposit-record.ts'
import { refundRefusalText, requestDepositRefund, reversedMicros, reversedOf } from './refund-deposit.ts'
import { readDeposit } from './settle-deposit.ts'

const root = '/console/operator/deposits'
const pathOf = (depositId: string): string => `${root}/${depositId}`

/** The largest number of events on the page of a deposit. */
const maxEvents = 100

type DepositWithRest = {
  readonly deposit: Deposit
  readonly leftCents: number
  readonly refundedMicros: number
  readonly chargedBackMicros: number
}

/** The list of all deposits and the page of a deposit for staff, and its refund to the payer by operators. */
export const depositAdminPages = ({
  pool,
  db,
  log,
  runner,
  ownGatewayIds,
  caughtUp,
  journalHead,
}: {
  readonly pool: pg.Pool
  readonly db: Db
  readonly log: EventLog
  readonly runner: CommandRunner
  readonly ownGatewayIds: readonly string[]
  readonly caughtUp: CaughtUp
  readonly journalHead: JournalHead
}): readonly ConsolePage[] => {
  /** The link to the page of an account, with its e-mail address if it has one. */
  const accountLink = async (accountId: string): Promise<Html> => {
    const email = (await emailsOf(pool, [accountId])).get(accountId)
    return html`<a href="/console/operator/accounts/${accountId}">${email ?? accountId}</a>`
  }

  /** The deposit of the path from its stream, and what is left to refund. */
  const findDeposit = async ({ params, cause }: PersonVisit): Promise<DepositWithRest | null> => {
    const depositId = (params.id ?? '') as DepositId
    await caughtUp()
    const reversed = await reversedOf(db, depositId)
    const deposit = reversed === undefined ? null : await readDeposit(runner, depositId, cause)
    if (deposit === null || reversed === undefined) return null
    if (refundHindrance(deposit, ownGatewayIds) !== null) return { deposit, leftCents: 0, ...reversed }
    const wallet = ledgerRef(deposit.details.accountId)
    const ledger = await readState(runner, { ...cause, name: 'read-wallet' }, wallet)
    const leftCents = refundableCents({ deposit, ledger }, reversedMicros(reversed))
    return { deposit, leftCents, ...reversed }
  }

  /** @throws not_found */
  const depositOf = async (visit: PersonVisit): Promise<DepositWithRest> => {
    const found = await findDeposit(visit)
    if (found === null) throw refuse('not_found', 'no deposit has this id')
    return found
  }

  const inputOf = (text: (name: string) => string, leftCents: number) => {
    const cents = parseCents(text('amount'), leftCents)
    const reference = text('reason')
    const problems = problemsIn({
      amount: !cents && `Type dollars such as 2.50, at most the ${dollarText(leftCents)} that are left.`,
      reason: !isReference(reference) && 'Give a reason of at most 200 characters.',
    })
    return problems || !cents ? { problems: problems ?? {} } : { cents, reference }
  }

  const refund = async (visit: PersonVisit, typed: FormInput): Promise<PageOutcome | FormRefusal> => {
    const { deposit, leftCents } = await depositOf(visit)
    const { depositId } = deposit.details
    const input = inputOf(typed.text, leftCents)
    if ('problems' in input) return refused({ form: Object.values(input.problems).join(' ') })
    const { cents: amountCents, reference } = input
    const answer = await requestDepositRefund(
      { runner, db, ownGatewayIds },
      { depositId, amountCents, reference },
      visit.cause,
    )
    switch (answer.outcome) {
      case 'proposed':
        return goTo(
          proposalPath(answer.proposal.proposalId),
          'No money was moved yet: this refund needs a second approver. Another operator must approve it.',
        )
      case 'not_proposed':
        return refused({ form: `It was refused: ${notProposedText(answer.proposal)}.` }, 409)
      case 'refused':
        return refused({ form: `It was refused: ${refundRefusalText(answer.refusal)}.` }, 409)
      case 'requested':
        return goTo(
          pathOf(depositId),
          `The refund of ${dollarText(answer.amountCents)} is requested. It is made at the payment provider within seconds.`,
        )
      default:
        return answer satisfies never
    }
  }

  return [
    listPage(staffPage, {
      path: root,
      name: 'listAllDeposits',
      summary: 'The deposits of all accounts, newest first',
      title: 'Deposits',
      filters: { status: { label: 'State', choices: labelled(shownDepositStatuses) } },
      caption: 'Deposits of all accounts',
      search: 'Account, deposit or customer',
      orderedBy: 'Opened',
      file: 'deposits',
      load: async ({ nowMs }, page) => {
        await caughtUp()
        const rows = await depositsAfter(db, allAccounts, page)
        const emails = await emailsOf(pool, [...new Set(rows.map(({ accountId }) => accountId))])
        return rows.map((row) => ({
          ...depositRecord(row, nowMs, null),
          accountId: row.accountId,
          email: emails.get(row.accountId) ?? null,
        }))
      },
      keyOf: ({ created_at: at, deposit_id: id }) => afterText(String(at), id),
      columns: (_) => [
        nameColumn('Deposit', ({ deposit_id: id, method, customer }) => ({
          text: railName(method),
          href: pathOf(id),
          note: customer && `for ${customer}`,
        })),
        ...depositColumns,
        amountColumn('Charged back', ({ charged_back_cents: cents }) => cents, { place: 'minor' }),
        amountColumn('Refunded', ({ refunded_cents: cents }) => cents, { place: 'minor' }),
        nameColumn('Account', ({ email, accountId }) => ({
          text: email ?? accountId,
          href: `/console/operator/accounts/${accountId}`,
        })),
      ],
      empty: 'There are no deposits yet.',
      cliEquivalents: () => ['bin/farebox deposits list'],
    }),
    staffPage({
      path: '/console/operator/deposits/{id}',
      name: 'showAnyDeposit',
      crumb: 'Deposit',
      summary: 'Any deposit with its history and postings',
      show: async (visit) => {
        const { roles } = visit.visitor
        const id = visit.params.id ?? ''
        // A movement by hand has an id in the same form, and is no deposit.
        const found = await findDeposit(visit)
        if (found === null) return goTo(`/console/trail/${id}`)
        const { deposit, leftCents, chargedBackMicros, refundedMicros } = found
        const { details, creditedMicros, status, invoice } = deposit
        const { depositId, accountId, customerId, provider, gatewayId, rail, amountCents } = details
        const { owedCents = 0 } = details
        const hindrance = refundHindrance(deposit, ownGatewayIds)
        const head = await journalHead()
        const explanation = await explainResource({ db, log }, depositId, { head, limit: maxEvents })
        return {
          title: `Deposit of ${dollarText(amountCents)}`,
          actions:
            leftCents > 0 && roles.has('operator')
              ? buttonLink(`${pathOf(depositId)}/refund`, `Refund ${dollarText(leftCents)}`, 'danger')
              : nothing,
          body: html`${detailsOf([
            ['State', depositState(shownDepositStatus({ status, chargedBackMicros }))],
            ['Deposit', idText(depositId)],
            ['Account', await accountLink(accountId)],
            ['Customer', customerId && idText(customerId)],
            ['Payment method', railName(rail)],
            ['Provider', provider],
            ['Gateway', html`<code>${gatewayId}</code>`],
            ['Invoice', invoice && html`<code>${invoice.invoiceId}</code>`],
            ['Invoiced', dollarText(amountCents)],
            ['Debt that it pays first', owedCents === 0 ? null : dollarText(owedCents)],
            ['Credited', dollarText(microsToCentsFloor(creditedMicros))],
            [
              'Charged back',
              chargedBackMicros > 0 ? dollarText(microsToCentsFloor(chargedBackMicros)) : null,
            ],
            ['Refunded', refundedMicros > 0 ? dollarText(microsToCentsFloor(refundedMicros)) : null],
            ['Left to refund', hindrance === null ? dollarText(leftCents) : null],
            ['Refund', hindrance === null ? null : `Not from here: ${refundRefusalText(hindrance)}.`],
          ])}
<h2>History</h2>
${explanation && chainOf(explanation, roles)}`,
          cliEquivalents: [
            `bin/farebox deposits show ${depositId}`,
            `bin/farebox ledger explain ${depositId} --limit ${maxEvents}`,
          ],
        }
      },
    }),
    operatorPage({
      path: '/console/operator/deposits/{id}/refund',
      name: 'refundDeposit',
      summary: 'Chooses the amount of a refund to the payer',
      show: async (visit) => {
        const { form } = visit
        const { deposit, leftCents } = await depositOf(visit)
        const { depositId, accountId } = deposit.details
        return {
          title: 'Refund a deposit',
          body: html`<p>Deposit of ${await accountLink(accountId)}: ${dollarText(microsToCentsFloor(deposit.creditedMicros))} credited, ${dollarText(leftCents)} left to refund.</p>
<p class="soft">The payer gets the money back on the card, and the wallet goes down by the same amount.</p>
${formOf(form, {
  fields: [
    fieldOf(
      {
        name: 'amount',
        label: 'Amount, USD',
        inputmode: 'decimal',
        required: true,
        value: amountText(leftCents),
      },
      form,
    ),
    fieldOf(
      {
        name: 'reason',
        label: 'Reason',
        hint: 'It stays in the log: do not include personal data. The same reason refunds this deposit only once.',
        required: true,
        maxlength: 200,
      },
      form,
    ),
  ],
  submit: 'Continue',
  back: pathOf(depositId),
})}`,
          cliEquivalents: [
            `bin/farebox deposits refund --deposit ${depositId} --reason WHY`,
            `bin/farebox deposits refund --deposit ${depositId} --cents CENTS --reason WHY`,
          ],
        }
      },
      act: {
        run: async (visit, typed) => {
          const { deposit, leftCents } = await depositOf(visit)
          const input = inputOf(typed.text, leftCents)
          if ('problems' in input) return refused(input.problems)
          const query = { amount: amountText(input.cents), reason: input.reference }
          return goTo(`${pathOf(deposit.details.depositId)}/refund/confirm${queryText(query)}`)
        },
      },
    }),
    operatorPage({
      path: '/console/operator/deposits/{id}/refund/confirm',
      name: 'confirmDepositRefund',
      summary: 'Refunds a deposit to the payer',
      confirmed: true,
      show: async (visit) => {
        const { form } = visit
        const { deposit, leftCents } = await depositOf(visit)
        const { depositId, accountId } = deposit.details
        const text = fieldTextsOf(visit)
        const input = inputOf(text, leftCents)
        const back = `${pathOf(depositId)}/refund`
        if ('problems' in input) return goTo(back)
        const amount = dollarText(input.cents)
        return {
          title: `Refund ${amount} to the card`,
          body: html`${detailsOf([
            ['Amount', amount],
            ['Deposit', idText(depositId)],
            ['Account', await accountLink(accountId)],
            ['Reason', input.reference],
          ])}
<p>A refund that was made cannot be taken back.</p>
${formOf(form, {
  fields: [hiddenOf('amount', text('amount')), hiddenOf('reason', input.reference)],
  submit: `Refund ${amount} to the card`,
  danger: true,
  back,
})}`,
          cliEquivalents: [
            `bin/farebox deposits refund --deposit ${depositId} --cents ${input.cents} --reason WHY`,
          ],
        }
      },
      act: { once: true, run: refund },
    }),
  ]
}

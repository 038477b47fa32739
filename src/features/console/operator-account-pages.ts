import type pg from 'pg'
import { transactionsBefore } from '../../../projections/balances.ts'
import { ordersAfter } from '../../../projections/orders.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { CaughtUp, Reads } from '../../platform/projections/read-your-writes.ts'
import { type FormInput, fieldOf, formOf, problemsIn } from '../../platform/ui/form.ts'
import { type Html, html, nothing } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  type FormRefusal,
  goTo,
  operatorPage,
  type PageOutcome,
  type PersonVisit,
  refused,
} from '../../platform/ui/page.ts'
import { detailsOf, listOf, tableOf } from '../../platform/ui/table.ts'
import {
  afterText,
  buttonLink,
  countText,
  dollarText,
  idText,
  microsText,
  parseCents,
  stateText,
  timeText,
} from '../../platform/ui/text.ts'
import { type Accounts, accountsAfter, blockOf } from '../accounts/index.ts'
import { linkedText } from '../finance/index.ts'
import { operatorOrderColumns } from '../orders/index.ts'
import { isReference, maxCents, proposalPath, type Wallets } from '../wallet/index.ts'

const root = '/console/operator/accounts'
const pathOf = (accountId: string): string => `${root}/${accountId}`

export const accountIdOf = (text: string | null | undefined): AccountId | null =>
  /^acc_[0-9a-f]{32}$/.test(text ?? '') ? (text as AccountId) : null

const accountState = (isBlocked: boolean): Html =>
  isBlocked ? stateText('blocked', 'bad') : stateText('active', 'good')

const reasonHint = 'It stays in the log: do not include personal data.'
const reasonProblem = 'Give a reason of at most 200 characters.'

/** The list of accounts, and the pages of one account for operators. */
export const operatorAccountPages = ({
  accounts,
  pool,
  caughtUp,
  db,
  reads,
  log,
  wallets,
}: {
  readonly accounts: Pick<Accounts, 'read' | 'emailOf' | 'block' | 'unblock'>
  readonly pool: pg.Pool
  readonly caughtUp: CaughtUp
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
  readonly log: Pick<EventLog, 'readStream'>
  readonly wallets: Pick<Wallets, 'read' | 'credit'>
}): readonly ConsolePage[] => {
  /**
   * The account of the path, with its state from the log.
   * @throws not_found
   */
  const accountOf = async ({ params, cause }: PersonVisit) => {
    const accountId = accountIdOf(params.id)
    const state = accountId && (await accounts.read(accountId, cause))
    if (accountId === null || !state) throw refuse('not_found', 'no account has this id')
    const email = await accounts.emailOf(accountId, cause)
    return { accountId, state, email, title: email ?? accountId }
  }

  const accountLine = ({ accountId, email }: { readonly accountId: string; readonly email: string | null }) =>
    html`<p>${email ?? 'No e-mail address'} ${idText(accountId)}</p>`

  const credit = async (visit: PersonVisit, typed: FormInput): Promise<PageOutcome | FormRefusal> => {
    const { accountId } = await accountOf(visit)
    const amountCents = parseCents(typed.text('amount'), maxCents)
    const reference = typed.text('reference')
    const problems = problemsIn({
      amount: !amountCents && `Type dollars above 0 such as 12 or 12.50, at most ${dollarText(maxCents)}.`,
      reference: !isReference(reference) && reasonProblem,
    })
    if (problems || !amountCents) return refused(problems ?? {})
    const answer = await wallets.credit({ accountId, amountCents, reference }, visit.cause)
    if (answer.outcome === 'applied')
      return goTo(
        pathOf(accountId),
        `${dollarText(microsToCentsFloor(answer.amountMicros))} credited. The balance is ${dollarText(answer.balanceCents)}.`,
      )
    if (answer.outcome === 'proposed')
      return goTo(
        proposalPath(answer.proposal.proposalId),
        'No money was moved yet: this amount needs a second approver. Another operator must approve it.',
      )
    if (answer.outcome === 'other_proposed')
      return refused(
        {
          reference: `A proposal with this reason and another amount is open: ${answer.proposal.proposalId}.`,
        },
        409,
      )
    const { refusal } = answer
    if (refusal.code === 'already_applied')
      return refused(
        {
          reference: `This reason already credited ${dollarText(microsToCentsFloor(refusal.amountMicros))} before. Use another one to credit again.`,
        },
        409,
      )
    if (refusal.code === 'unconfirmed')
      return refused(
        {
          reference:
            'A movement with this reason was recorded long ago and never confirmed. If it is not among the movements of the wallet, use another reason.',
        },
        409,
      )
    return refused({ amount: 'The balance of the wallet would be too large.' }, 409)
  }

  return [
    operatorPage({
      path: root,
      name: 'listAccounts',
      summary: 'Every account, newest first',
      nav: { label: 'Accounts', group: 'Operator' },
      show: async (visit) => {
        await caughtUp()
        return {
          title: 'Accounts',
          body: await listOf(visit, {
            caption: 'Accounts, newest first',
            load: (page) => accountsAfter(pool, page),
            parseKey: accountIdOf,
            keyOf: ({ accountId }) => accountId,
            empty: 'There are no accounts yet.',
            columns: [
              {
                title: 'Account',
                head: true,
                cell: ({ accountId }) => linkedText(accountId, visit.visitor.roles),
              },
              { title: 'E-mail', cell: ({ email }) => email ?? 'erased' },
              { title: 'Kind', cell: ({ reseller }) => (reseller ? 'reseller' : 'customer') },
              { title: 'State', cell: ({ blocked }) => accountState(blocked) },
              { title: 'Since', cell: ({ createdAt }) => timeText(createdAt) },
            ],
          }),
          cliEquivalents: [
            'npx farebox accounts list --limit 50',
            'npx farebox accounts create --email ADDRESS',
          ],
        }
      },
    }),
    operatorPage({
      path: '/console/operator/accounts/{id}',
      name: 'showAccount',
      summary: 'One account with its money, orders and movements',
      show: async (visit) => {
        const { nowMs, cause, visitor } = visit
        const { accountId, state, email } = await accountOf(visit)
        await reads.settled(accountId)
        const scope = wholeAccount(accountId)
        const [wallet, block, orders, movements] = await Promise.all([
          wallets.read(accountId, cause),
          state.blocked ? blockOf(log, accountId) : null,
          ordersAfter(db, scope, { status: undefined, after: null, limit: 10 }, nowMs),
          transactionsBefore(db, scope, { before: null, limit: 10 }),
        ])
        const keys = [...state.keys.values()].filter(({ revoked }) => !revoked).length
        const path = pathOf(accountId)
        const amountOf = (micros: number): string => dollarText(microsToCentsFloor(micros))
        return {
          title: email ?? 'Account without e-mail address',
          actions: html`${buttonLink(`${path}/credit`, 'Credit')}${state.blocked ? buttonLink(`${path}/unblock`, 'Unblock') : buttonLink(`${path}/block`, 'Block', 'danger')}${buttonLink(`/console/staff?account=${accountId}`, 'View as customer')}`,
          body: html`${detailsOf([
            ['Account', idText(accountId)],
            ['Kind', state.reseller ? 'reseller' : 'customer'],
            [
              'State',
              html`${accountState(state.blocked)}${block ? html` since ${timeText(block.at)}: ${block.reason} <small>by ${block.by}</small>` : nothing}`,
            ],
            ['Balance', amountOf(wallet.availableMicros)],
            ['Held', amountOf(wallet.heldMicros)],
            ['Debt', amountOf(wallet.receivableMicros)],
            ['Keys', `${countText(keys, 'key')} not revoked`],
          ])}
<h2>Recent orders</h2>
${tableOf({ caption: 'Recent orders of the account', rows: orders, empty: 'There are no orders yet.', columns: operatorOrderColumns(visitor.roles) })}
<p><a href="${path}/orders">All orders</a></p>
<h2>Recent movements of the wallet</h2>
${tableOf({
  caption: 'Recent movements of the wallet',
  rows: movements,
  empty: 'There are no movements yet.',
  columns: [
    { title: 'Time', cell: ({ createdAt }) => timeText(createdAt) },
    { title: 'Type', head: true, cell: ({ type }) => type },
    {
      title: 'Subject',
      cell: ({ orderId, depositId, reference }) =>
        linkedText(orderId ?? depositId ?? reference ?? '', visitor.roles),
    },
    { title: 'Amount, USD', number: true, cell: ({ amountMicros }) => microsText(amountMicros) },
    { title: 'Balance, USD', number: true, cell: (row) => microsText(row.balanceAfterMicros) },
  ],
})}`,
          cliEquivalents: [
            `npx farebox accounts show ${accountId}`,
            `npx farebox orders list --account ${accountId}`,
            `npx farebox ledger statement ${accountId}`,
          ],
        }
      },
    }),
    operatorPage({
      path: '/console/operator/accounts/{id}/orders',
      name: 'listAccountOrders',
      summary: 'The orders of one account',
      show: async (visit) => {
        const { accountId, title } = await accountOf(visit)
        await reads.settled(accountId)
        return {
          title: 'Orders of an account',
          body: html`<p><a href="${pathOf(accountId)}">${title}</a></p>
${await listOf(visit, {
  caption: 'Orders, newest first',
  load: (page) => ordersAfter(db, wholeAccount(accountId), { status: undefined, ...page }, visit.nowMs),
  keyOf: ({ details }) => afterText(details.createdAt, details.orderId),
  empty: 'There are no orders yet.',
  columns: operatorOrderColumns(visit.visitor.roles),
})}`,
          cliEquivalents: [`npx farebox orders list --account ${accountId}`],
        }
      },
    }),
    operatorPage({
      path: '/console/operator/accounts/{id}/block',
      name: 'blockAccount',
      summary: 'Blocks an account, with a reason',
      confirmed: true,
      show: async (visit) => {
        const account = await accountOf(visit)
        const { accountId, title } = account
        const reasonField = {
          name: 'reason',
          label: 'Reason',
          hint: reasonHint,
          required: true,
          maxlength: 200,
        } as const
        return {
          title: 'Block an account',
          body: html`${accountLine(account)}
<p>A blocked account can read but not change anything. Its payments are still credited.</p>
${formOf(visit.form, { fields: [fieldOf(reasonField, visit.form)], submit: `Block ${title}`, danger: true, back: pathOf(accountId) })}`,
          cliEquivalents: [`npx farebox accounts block ${accountId} --reason WHY`],
        }
      },
      act: {
        run: async (visit, typed) => {
          const { accountId } = await accountOf(visit)
          const reason = typed.text('reason')
          if (!isReference(reason)) return refused({ reason: reasonProblem })
          const result = await accounts.block(accountId, reason, visit.cause)
          if (result.outcome === 'refused') throw refuse('not_found', 'no account has this id')
          return goTo(
            pathOf(accountId),
            result.changed ? 'The account is blocked.' : 'The account was already blocked.',
          )
        },
      },
    }),
    operatorPage({
      path: '/console/operator/accounts/{id}/unblock',
      name: 'unblockAccount',
      summary: 'Unblocks an account',
      confirmed: true,
      show: async (visit) => {
        const account = await accountOf(visit)
        const { accountId, title } = account
        return {
          title: 'Unblock an account',
          body: html`${accountLine(account)}
<p>The account can buy again.</p>
${formOf(visit.form, { submit: `Unblock ${title}`, back: pathOf(accountId) })}`,
          cliEquivalents: [`npx farebox accounts unblock ${accountId}`],
        }
      },
      act: {
        run: async (visit) => {
          const { accountId } = await accountOf(visit)
          const result = await accounts.unblock(accountId, visit.cause)
          if (result.outcome === 'refused') throw refuse('not_found', 'no account has this id')
          return goTo(
            pathOf(accountId),
            result.changed ? 'The account can buy again.' : 'The account was not blocked.',
          )
        },
      },
    }),
    operatorPage({
      path: '/console/operator/accounts/{id}/credit',
      name: 'creditWallet',
      summary: 'Credits the wallet of an account, with a reason',
      confirmed: true,
      show: async (visit) => {
        const { form } = visit
        const account = await accountOf(visit)
        const { accountId, title } = account
        return {
          title: 'Credit a wallet',
          body: html`${accountLine(account)}
${formOf(form, {
  fields: [
    fieldOf(
      {
        name: 'amount',
        label: 'Amount, USD',
        inputmode: 'decimal',
        required: true,
        hint: 'Dollars such as 12 or 12.50.',
      },
      form,
    ),
    fieldOf(
      {
        name: 'reference',
        label: 'Reason',
        hint: `The customer sees it. The same reason credits this wallet only once. ${reasonHint}`,
        required: true,
        maxlength: 200,
      },
      form,
    ),
  ],
  submit: `Credit ${title}`,
  back: pathOf(accountId),
})}`,
          cliEquivalents: [`npx farebox wallet credit --account ${accountId} --cents CENTS --reference WHY`],
        }
      },
      act: { once: true, run: credit },
    }),
  ]
}

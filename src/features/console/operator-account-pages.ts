import type pg from 'pg'
import { transactionsAfter } from '../../../projections/balances.ts'
import { ordersAfter } from '../../../projections/orders.ts'
import type { Catalog } from '../../domain/catalog/catalog.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import { wholeAccount } from '../../kernel/scopes.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { refuse } from '../../platform/http/errors.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { CaughtUp, Reads } from '../../platform/projections/read-your-writes.ts'
import { formPage, pageForm, radioField, textField } from '../../platform/ui/form-page.ts'
import { html, nothing } from '../../platform/ui/html.ts'
import { listPage } from '../../platform/ui/list.ts'
import {
  type ConsolePage,
  type FormRefusal,
  goTo,
  operatorPage,
  type PageOutcome,
  type PersonVisit,
  refused,
  staffPage,
} from '../../platform/ui/page.ts'
import {
  detailsOf,
  idColumn,
  microsColumn,
  nameColumn,
  stateColumn,
  tableOf,
  textColumn,
  timeColumn,
} from '../../platform/ui/table.ts'
import {
  type BadgeTone,
  buttonLink,
  countText,
  dollarText,
  idText,
  parseCents,
  stateText,
  timeText,
} from '../../platform/ui/text.ts'
import { type Accounts, accountsAfter, blockOf } from '../accounts/index.ts'
import { operatorOrderColumns } from '../orders/index.ts'
import {
  creditByHand,
  isReference,
  type ManualMovementAnswer,
  maxCents,
  notProposedText,
  proposalPath,
  transactionColumns,
  type Wallets,
} from '../wallet/index.ts'

const root = '/console/operator/accounts'
const pathOf = (accountId: string): string => `${root}/${accountId}`

export const accountIdOf = (text: string | null | undefined): AccountId | null =>
  /^acc_[0-9a-f]{32}$/.test(text ?? '') ? (text as AccountId) : null

const accountBadge = (isBlocked: boolean): readonly [string, BadgeTone] =>
  isBlocked ? ['blocked', 'bad'] : ['active', 'good']

const reasonField = (hint = '') =>
  textField({
    label: 'Reason',
    hint: `${hint}It stays in the log: do not include personal data.`,
    required: true,
    maxlength: 200,
    parse: (text) => (isReference(text) ? text : { problem: 'Give a reason of at most 200 characters.' }),
  })

const creditOutcome = (accountId: AccountId, answer: ManualMovementAnswer): PageOutcome | FormRefusal => {
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
  if (answer.outcome === 'not_proposed')
    return refused({ reference: `It was refused: ${notProposedText(answer.proposal)}.` }, 409)
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

/** The list of accounts and the page of one account for staff, and the actions of operators. */
export const operatorAccountPages = ({
  accounts,
  pool,
  caughtUp,
  db,
  reads,
  log,
  wallets,
  catalog,
}: {
  readonly accounts: Pick<Accounts, 'read' | 'emailOf' | 'block' | 'unblock'>
  readonly pool: pg.Pool
  readonly caughtUp: CaughtUp
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
  readonly log: Pick<EventLog, 'readStream'>
  readonly wallets: Pick<Wallets, 'read' | 'credit' | 'adjust'>
  readonly catalog: { current(): Catalog }
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

  return [
    listPage(staffPage, {
      path: root,
      name: 'listAccounts',
      summary: 'Every account, newest first',
      title: 'Accounts',
      filters: {
        kind: { label: 'Kind', choices: { customer: 'customers', reseller: 'resellers' } },
        state: { label: 'State', choices: { active: 'active', blocked: 'blocked' } },
      },
      caption: 'Accounts, newest first',
      search: 'Part of an e-mail',
      file: 'accounts',
      load: async (_, page) => {
        await caughtUp()
        return accountsAfter(pool, page)
      },
      parseKey: accountIdOf,
      keyOf: ({ accountId }) => accountId,
      columns: (_) => [
        nameColumn('E-mail', ({ accountId, email }) => ({
          text: email ?? 'erased',
          href: pathOf(accountId),
        })),
        textColumn('Kind', ({ reseller }) => (reseller ? 'reseller' : 'customer'), { place: 'plain' }),
        stateColumn('State', ({ blocked }) => accountBadge(blocked)),
        microsColumn('Balance', ({ availableMicros }) => availableMicros, { place: 'lead' }),
        timeColumn('Since', ({ createdAt }) => createdAt, { place: 'plain' }),
        idColumn('Account', ({ accountId }) => accountId),
      ],
      empty: 'There are no accounts yet.',
      cliEquivalents: () => [
        'bin/farebox accounts list --limit 50',
        'bin/farebox accounts create --email ADDRESS',
      ],
    }),
    staffPage({
      path: '/console/operator/accounts/{id}',
      name: 'showAccount',
      crumb: 'Account',
      summary: 'One account with its money, orders and movements',
      show: async (visit) => {
        const { nowMs, cause, visitor } = visit
        const { accountId, state, email } = await accountOf(visit)
        await reads.settled(accountId)
        const scope = wholeAccount(accountId)
        const [wallet, block, orders, movements] = await Promise.all([
          wallets.read(accountId, cause),
          state.blocked ? blockOf(log, accountId) : null,
          ordersAfter(db, scope, { after: null, limit: 10 }, nowMs),
          transactionsAfter(db, scope, { after: null, limit: 10 }),
        ])
        const keys = [...state.keys.values()].filter(({ revoked }) => !revoked).length
        const path = pathOf(accountId)
        const amountOf = (micros: number): string => dollarText(microsToCentsFloor(micros))
        return {
          title: email ?? 'Account without e-mail address',
          actions: visitor.roles.has('operator')
            ? html`${buttonLink(`${path}/credit`, 'Credit')}${state.blocked ? buttonLink(`${path}/unblock`, 'Unblock') : buttonLink(`${path}/block`, 'Block', 'danger')}${buttonLink(`/console/view?account=${accountId}`, 'View as customer')}`
            : nothing,
          body: html`${detailsOf([
            ['Account', idText(accountId)],
            ['Kind', state.reseller ? 'reseller' : 'customer'],
            [
              'State',
              html`${stateText(...accountBadge(state.blocked))}${block ? html` since ${timeText(block.at)}: ${block.reason} <small>by ${block.by}</small>` : nothing}`,
            ],
            [
              'Balance',
              html`${amountOf(wallet.availableMicros)}${visitor.roles.has('finance') ? html` <a href="/console/finance/account?name=${accountId}">Lines</a>` : nothing}`,
            ],
            ['Held', amountOf(wallet.heldMicros)],
            ['Debt', amountOf(wallet.receivableMicros)],
            ['Keys', `${countText(keys, 'key')} not revoked`],
          ])}
<h2>Recent orders</h2>
${tableOf({ caption: 'Recent orders of the account', rows: orders, empty: 'There are no orders yet.', columns: operatorOrderColumns(catalog) })}
<p><a href="/console/operator/orders?search=${accountId}">All orders</a> <a href="/console/operator/deposits?search=${accountId}">Deposits</a> <a href="/console/operator/reversals?search=${accountId}">Disputes and refunds</a></p>
<h2>Recent movements of the wallet</h2>
${tableOf({
  caption: 'Recent movements of the wallet',
  rows: movements,
  empty: 'There are no movements yet.',
  columns: transactionColumns(({ orderId, depositId }) =>
    orderId === null
      ? depositId && `/console/operator/deposits/${depositId}`
      : `/console/operator/orders/${orderId}`,
  ),
})}`,
          cliEquivalents: [
            `bin/farebox accounts show ${accountId}`,
            `bin/farebox orders list --account ${accountId}`,
            `bin/farebox ledger statement ${accountId}`,
          ],
        }
      },
    }),
    formPage(operatorPage, {
      path: '/console/operator/accounts/{id}/block',
      name: 'blockAccount',
      summary: 'Blocks an account, with a reason',
      confirmed: true,
      form: async (visit) => {
        const account = await accountOf(visit)
        const { accountId, title } = account
        return pageForm({
          title: 'Block an account',
          intro: html`${accountLine(account)}
<p>A blocked account can read but not change anything. Its payments are still credited.</p>`,
          fields: { reason: reasonField() },
          submit: `Block ${title}`,
          danger: true,
          back: pathOf(accountId),
          cliEquivalents: [`bin/farebox accounts block ${accountId} --reason WHY`],
          run: async ({ reason }) => {
            const result = await accounts.block(accountId, reason, visit.cause)
            if (result.outcome === 'refused') throw refuse('not_found', 'no account has this id')
            return goTo(
              pathOf(accountId),
              result.changed ? 'The account is blocked.' : 'The account was already blocked.',
            )
          },
        })
      },
    }),
    formPage(operatorPage, {
      path: '/console/operator/accounts/{id}/unblock',
      name: 'unblockAccount',
      summary: 'Unblocks an account',
      confirmed: true,
      form: async (visit) => {
        const account = await accountOf(visit)
        const { accountId, title } = account
        return pageForm({
          title: 'Unblock an account',
          intro: html`${accountLine(account)}
<p>The account can buy again.</p>`,
          submit: `Unblock ${title}`,
          back: pathOf(accountId),
          cliEquivalents: [`bin/farebox accounts unblock ${accountId}`],
          run: async () => {
            const result = await accounts.unblock(accountId, visit.cause)
            if (result.outcome === 'refused') throw refuse('not_found', 'no account has this id')
            return goTo(
              pathOf(accountId),
              result.changed ? 'The account can buy again.' : 'The account was not blocked.',
            )
          },
        })
      },
    }),
    formPage(operatorPage, {
      path: '/console/operator/accounts/{id}/credit',
      name: 'creditWallet',
      summary: 'Credits the wallet of an account, with a reason',
      confirmed: true,
      act: { once: true },
      form: async (visit) => {
        const account = await accountOf(visit)
        const { accountId, title } = account
        return pageForm({
          title: 'Credit a wallet',
          intro: accountLine(account),
          fields: {
            amount: textField({
              label: 'Amount, USD',
              inputmode: 'decimal',
              required: true,
              hint: 'Dollars such as 12 or 12.50.',
              parse: (text) =>
                parseCents(text, maxCents) || {
                  problem: `Type dollars above 0 such as 12 or 12.50, at most ${dollarText(maxCents)}.`,
                },
            }),
            kind: radioField({
              label: 'Kind',
              choices: [
                {
                  value: 'payment',
                  label: 'Payment received elsewhere',
                  hint: 'such as a bank transfer: it is money received',
                },
                { value: 'goodwill', label: 'Goodwill', hint: 'a gift: it is an expense' },
                { value: 'correction', label: 'Correction', hint: 'of an error: it is an expense' },
              ],
              problem: 'Choose what the credit is for.',
            }),
            reference: reasonField(
              'The customer sees it. The same reason credits this wallet only once for each kind. ',
            ),
          },
          submit: `Credit ${title}`,
          back: pathOf(accountId),
          cliEquivalents: [
            `bin/farebox wallet credit --account ${accountId} --cents CENTS --kind KIND --reference WHY`,
          ],
          run: async ({ amount: amountCents, kind, reference }) =>
            creditOutcome(
              accountId,
              await creditByHand(wallets, { accountId, amountCents, kind, reference }, visit.cause),
            ),
        })
      },
    }),
  ]
}

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
import {
  emptyFormInput,
  type FormInput,
  fieldOf,
  keyField,
  type Problems,
  problemsOf,
} from '../../platform/ui/form.ts'
import type { View } from '../../platform/ui/frame.ts'
import { html, nothing } from '../../platform/ui/html.ts'
import {
  type ConsolePage,
  goTo,
  type PersonVisit,
  personPage,
  refusedView,
  show,
} from '../../platform/ui/page.ts'
import { pagedOf, pageRows, pagerOf, tableOf } from '../../platform/ui/table.ts'
import {
  afterOf,
  afterText,
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
import { orderTable } from '../orders/index.ts'
import { isReference, maxCents, proposalPath, type Wallets } from '../wallet/index.ts'

const pathOf = (accountId: string): string => `/console/operator/accounts/${accountId}`

export const accountIdOf = (text: string | null | undefined): AccountId | null =>
  /^acc_[0-9a-f]{32}$/.test(text ?? '') ? (text as AccountId) : null

type AccountReads = { readonly accounts: Pick<Accounts, 'read' | 'emailOf'> }

/**
 * The account of the path, with its state from the log.
 * @throws not_found
 */
const accountOf = async ({ accounts }: AccountReads, { params, cause }: PersonVisit) => {
  const accountId = accountIdOf(params.id)
  const state = accountId && (await accounts.read(accountId, cause))
  if (accountId === null || !state) throw refuse('not_found', 'no account has this id')
  return { accountId, state, email: await accounts.emailOf(accountId, cause) }
}

type AccountListReads = { readonly pool: pg.Pool; readonly caughtUp: CaughtUp }

const list = async ({ pool, caughtUp }: AccountListReads, { query, visitor }: PersonVisit) => {
  const before = accountIdOf(query.get('before'))
  await caughtUp()
  const found = await accountsAfter(pool, { after: before, limit: pageRows + 1 })
  const { rows, next } = pagedOf(found, ({ accountId }) => accountId)
  return show({
    title: 'Accounts',
    body: html`${tableOf({
      caption: 'Accounts, newest first',
      rows,
      empty: html`<p>${before === null ? 'There is no account yet.' : 'None is older.'}</p>`,
      columns: [
        { title: 'Account', head: true, cell: ({ accountId }) => linkedText(accountId, visitor.roles) },
        { title: 'E-mail', cell: ({ email }) => email ?? 'erased' },
        { title: 'Kind', cell: ({ reseller }) => (reseller ? 'reseller' : 'customer') },
        {
          title: 'State',
          cell: ({ blocked }) => (blocked ? stateText('blocked', 'bad') : stateText('works', 'good')),
        },
        { title: 'Since', cell: ({ createdAt }) => timeText(createdAt) },
      ],
    })}
${pagerOf('/console/operator/accounts', {}, { before, next })}`,
    same: ['npx farebox accounts list --limit 50', 'npx farebox accounts create --email ADDRESS'],
  })
}

type AccountServices = AccountReads & {
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
  readonly log: Pick<EventLog, 'readStream'>
  readonly wallets: Pick<Wallets, 'read'>
}

const accountView = async ({ accounts, db, reads, log, wallets }: AccountServices, visit: PersonVisit) => {
  const { accountId, state, email } = await accountOf({ accounts }, visit)
  const { nowMs, cause, visitor } = visit
  await reads.settled(accountId)
  const scope = wholeAccount(accountId)
  const [wallet, block, orders, movements] = await Promise.all([
    wallets.read(accountId, cause),
    state.blocked ? blockOf(log, accountId) : null,
    ordersAfter(db, scope, { status: undefined, after: null, limit: 10 }, nowMs),
    transactionsBefore(db, scope, { before: null, limit: 10 }),
  ])
  const keys = [...state.keys.values()].filter(({ revoked }) => !revoked).length
  const accountPath = pathOf(accountId)
  return show({
    title: email ?? 'An account without e-mail',
    acts: html`<a class="button" href="${accountPath}/credit">Credit</a>
<a class="button${state.blocked ? '' : ' danger'}" href="${accountPath}/${state.blocked ? 'unblock' : 'block'}">${state.blocked ? 'Unblock' : 'Block'}</a>
<a class="button" href="/console/staff?account=${accountId}">See its pages</a>`,
    body: html`<dl class="facts">
<dt>Account</dt><dd>${idText(accountId)}</dd>
<dt>Kind</dt><dd>${state.reseller ? 'reseller' : 'customer'}</dd>
<dt>State</dt><dd>${state.blocked ? stateText('blocked', 'bad') : stateText('works', 'good')}${
      block ? html` since ${timeText(block.at)}: ${block.reason} <small>by ${block.by}</small>` : nothing
    }</dd>
<dt>Balance</dt><dd>${dollarText(microsToCentsFloor(wallet.availableMicros))}</dd>
<dt>Held</dt><dd>${dollarText(microsToCentsFloor(wallet.heldMicros))}</dd>
<dt>Owes</dt><dd>${dollarText(microsToCentsFloor(wallet.receivableMicros))}</dd>
<dt>Keys</dt><dd>${countText(keys, 'key')} not revoked</dd>
</dl>
<h2>Last orders</h2>
${orderTable({ caption: 'Last orders of the account', rows: orders, empty: 'Nothing was ordered yet.', roles: visitor.roles })}
<p><a href="${accountPath}/orders">All orders</a></p>
<h2>Last movements of the wallet</h2>
${tableOf({
  caption: 'Last movements of the wallet',
  rows: movements,
  empty: html`<p>Nothing moved the wallet yet.</p>`,
  columns: [
    { title: 'When', cell: ({ createdAt }) => timeText(createdAt) },
    { title: 'What', head: true, cell: ({ type }) => type },
    {
      title: 'About',
      cell: ({ orderId, depositId, reference }) =>
        linkedText(orderId ?? depositId ?? reference ?? '', visitor.roles),
    },
    { title: 'Moved, USD', number: true, cell: ({ amountMicros }) => microsText(amountMicros) },
    { title: 'Balance, USD', number: true, cell: (row) => microsText(row.balanceAfterMicros) },
  ],
})}`,
    same: [
      `npx farebox accounts show ${accountId}`,
      `npx farebox orders list --account ${accountId}`,
      `npx farebox ledger statement ${accountId}`,
    ],
  })
}

const ordersOf = async (
  { accounts, db, reads }: Omit<AccountServices, 'log' | 'wallets'>,
  visit: PersonVisit,
) => {
  const { accountId, email } = await accountOf({ accounts }, visit)
  const { query, nowMs, visitor } = visit
  const before = query.get('before')
  const after = afterOf(before)
  await reads.settled(accountId)
  const found = await ordersAfter(
    db,
    wholeAccount(accountId),
    { status: undefined, after, limit: pageRows + 1 },
    nowMs,
  )
  const { rows, next } = pagedOf(found, ({ details }) => afterText(details.createdAt, details.orderId))
  return show({
    title: 'Orders of an account',
    body: html`<p><a href="${pathOf(accountId)}">${email ?? accountId}</a></p>
${orderTable({ caption: 'Orders, newest first', rows, empty: 'Nothing was ordered.', roles: visitor.roles })}
${pagerOf(`${pathOf(accountId)}/orders`, {}, { before: after === null ? null : before, next })}`,
    same: [`npx farebox orders list --account ${accountId}`],
  })
}

const operator = { for: ['operator'] } as const

/** The list of all accounts. */
export const accountListPages = (services: AccountListReads): readonly ConsolePage[] => [
  personPage({
    ...operator,
    path: '/console/operator/accounts',
    name: 'listAccounts',
    summary: 'Every account, newest first',
    nav: { label: 'Accounts', group: 'Operator' },
    show: (visit) => list(services, visit),
  }),
]

/** The pages of one account for operators. */
export const accountPages = (services: AccountServices): readonly ConsolePage[] => [
  personPage({
    ...operator,
    path: '/console/operator/accounts/{id}',
    name: 'showAccount',
    summary: 'One account with its money, orders and movements',
    show: (visit) => accountView(services, visit),
  }),
  personPage({
    ...operator,
    path: '/console/operator/accounts/{id}/orders',
    name: 'listAccountOrders',
    summary: 'The orders of one account',
    show: (visit) => ordersOf(services, visit),
  }),
]

const reasonHint = 'It stays in the log for good: name no person.'

/** Blocking and unblocking an account have separate pages. Both need a confirmation of the operator's identity. */
export const blockAccountPages = ({
  accounts,
}: {
  readonly accounts: Pick<Accounts, 'read' | 'emailOf' | 'block' | 'unblock'>
}): readonly ConsolePage[] => {
  const blockView = async (
    visit: PersonVisit,
    blocks: boolean,
    typed: FormInput,
    problems: Problems,
  ): Promise<View> => {
    const { accountId, email } = await accountOf({ accounts }, visit)
    return {
      title: blocks ? 'Block an account' : 'Unblock an account',
      body: html`${problemsOf(problems)}
<p>${email ?? 'Without e-mail'} ${idText(accountId)}</p>
<p>${blocks ? 'It may read and no longer write. Money that is paid to it is still credited.' : 'It may buy again.'}</p>
<form method="post" class="stack" novalidate>
${blocks ? fieldOf({ name: 'reason', label: 'Why', hint: reasonHint, required: true, maxlength: 200 }, typed, problems) : nothing}
<div class="acts"><button class="${blocks ? 'danger' : 'first'}">${blocks ? 'Block' : 'Unblock'} ${email ?? accountId}</button> <a href="${pathOf(accountId)}">Back</a></div>
</form>`,
      same: [
        blocks
          ? `npx farebox accounts block ${accountId} --reason WHY`
          : `npx farebox accounts unblock ${accountId}`,
      ],
    }
  }

  const block = async (visit: PersonVisit, typed: FormInput) => {
    const { accountId } = await accountOf({ accounts }, visit)
    const reason = typed.text('reason')
    if (!isReference(reason))
      return refusedView(
        await blockView(visit, true, typed, { reason: 'Say why, in at most 200 characters.' }),
      )
    const result = await accounts.block(accountId, reason, visit.cause)
    if (result.outcome === 'refused') throw refuse('not_found', 'no account has this id')
    return goTo(pathOf(accountId), result.changed ? 'The account is blocked.' : 'It was blocked already.')
  }

  const unblock = async (visit: PersonVisit) => {
    const { accountId } = await accountOf({ accounts }, visit)
    const result = await accounts.unblock(accountId, visit.cause)
    if (result.outcome === 'refused') throw refuse('not_found', 'no account has this id')
    return goTo(pathOf(accountId), result.changed ? 'The account may buy again.' : 'It was not blocked.')
  }

  return [
    personPage({
      ...operator,
      path: '/console/operator/accounts/{id}/block',
      name: 'blockAccount',
      summary: 'Blocks an account, with a reason',
      confirmed: true,
      show: async (visit) => show(await blockView(visit, true, emptyFormInput, {})),
      act: { run: block },
    }),
    personPage({
      ...operator,
      path: '/console/operator/accounts/{id}/unblock',
      name: 'unblockAccount',
      summary: 'Lets a blocked account buy again',
      confirmed: true,
      show: async (visit) => show(await blockView(visit, false, emptyFormInput, {})),
      act: { run: unblock },
    }),
  ]
}

/** Crediting a wallet has a separate page. It needs a confirmation of the operator's identity. */
export const creditWalletPages = ({
  accounts,
  wallets,
}: AccountReads & { readonly wallets: Pick<Wallets, 'credit'> }): readonly ConsolePage[] => {
  const creditView = async (visit: PersonVisit, typed: FormInput, problems: Problems): Promise<View> => {
    const { accountId, email } = await accountOf({ accounts }, visit)
    return {
      title: 'Credit a wallet',
      body: html`${problemsOf(problems)}
<p>${email ?? 'Without e-mail'} ${idText(accountId)}</p>
<form method="post" class="stack" novalidate>
${keyField(visit.formKey)}
${fieldOf({ name: 'amount', label: 'Amount, USD', inputmode: 'decimal', required: true, hint: 'Dollars such as 12 or 12.50.' }, typed, problems)}
${fieldOf({ name: 'reference', label: 'What it is for', hint: `The account reads it beside the movement. The same words credit this wallet once for ever. ${reasonHint}`, required: true, maxlength: 200 }, typed, problems)}
<div class="acts"><button class="first">Credit ${email ?? accountId}</button> <a href="${pathOf(accountId)}">Back</a></div>
</form>`,
      same: [`npx farebox wallet credit --account ${accountId} --cents CENTS --reference WHY`],
    }
  }

  const credit = async (visit: PersonVisit, typed: FormInput) => {
    const { accountId } = await accountOf({ accounts }, visit)
    const amountCents = parseCents(typed.text('amount'), maxCents)
    const reference = typed.text('reference')
    const problems: Problems = {
      ...((amountCents === undefined || amountCents <= 0) && {
        amount: `Type dollars above 0 such as 12 or 12.50, at most ${dollarText(maxCents)}.`,
      }),
      ...(!isReference(reference) && { reference: 'Say what it is for, in at most 200 characters.' }),
    }
    if (Object.keys(problems).length > 0 || amountCents === undefined)
      return refusedView(await creditView(visit, typed, problems))
    const answer = await wallets.credit({ accountId, amountCents, reference }, visit.cause)
    if (answer.outcome === 'applied')
      return goTo(
        pathOf(accountId),
        `${dollarText(microsToCentsFloor(answer.amountMicros))} were credited; the wallet has ${dollarText(answer.balanceCents)}.`,
      )
    if (answer.outcome === 'proposed')
      return goTo(
        proposalPath(answer.proposal.proposalId),
        'Nothing moved yet: this is above what one operator may move alone. Another operator approves it.',
      )
    if (answer.outcome === 'other_proposed')
      return refusedView(
        await creditView(visit, typed, {
          reference: `These words wait for approval with another amount, as ${answer.proposal.proposalId}.`,
        }),
        409,
      )
    const { refusal } = answer
    const errorTexts =
      refusal.code === 'already_applied'
        ? {
            reference: `These words credited ${dollarText(microsToCentsFloor(refusal.amountMicros))} before. Other words credit again.`,
          }
        : refusal.code === 'unconfirmed'
          ? {
              reference:
                'A movement with these words was recorded long ago and never confirmed. Look for it among the movements, and use other words if it is not there.',
            }
          : { amount: 'With this the wallet would hold more than is counted.' }
    return refusedView(await creditView(visit, typed, errorTexts), 409)
  }

  return [
    personPage({
      ...operator,
      path: '/console/operator/accounts/{id}/credit',
      name: 'creditWallet',
      summary: 'Credits the wallet of an account, with a reason',
      confirmed: true,
      show: async (visit) => show(await creditView(visit, emptyFormInput, {})),
      act: { once: true, run: credit },
    }),
  ]
}

import type pg from 'pg'
import { type FoundReversal, reversalStatuses, reversalsAfter } from '../../../projections/reversals.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { CaughtUp } from '../../platform/projections/read-your-writes.ts'
import { html } from '../../platform/ui/html.ts'
import { labelled, listPage } from '../../platform/ui/list.ts'
import { type ConsolePage, staffPage } from '../../platform/ui/page.ts'
import {
  idColumn,
  microsColumn,
  nameColumn,
  stateColumn,
  textColumn,
  timeColumn,
} from '../../platform/ui/table.ts'
import { afterText, type BadgeTone } from '../../platform/ui/text.ts'
import { emailsOf } from '../accounts/index.ts'
import { reversalState } from './reversals.ts'

const badgeTones: Readonly<Record<FoundReversal['status'], BadgeTone>> = {
  requested: 'warn',
  refused: 'bad',
  taken: 'bad',
  returned: 'good',
}

/** The disputes of payments and their refunds to the payers, for staff. */
export const reversalPages = ({
  db,
  pool,
  caughtUp,
}: {
  readonly db: Db
  readonly pool: pg.Pool
  readonly caughtUp: CaughtUp
}): readonly ConsolePage[] => [
  listPage(staffPage, {
    path: '/console/operator/reversals',
    name: 'listReversals',
    summary: 'Disputes of payments and refunds to their payers, newest first',
    title: 'Disputes and refunds',
    intro: (_) =>
      html`<p>What banks and payment providers took back from wallets. A dispute blocks its account until an operator unblocks it. Those at the own gateways of resellers are not listed.</p>`,
    filters: {
      kind: { label: 'Kind', choices: { chargeback: 'disputes', deposit_refund: 'refunds' } },
      status: {
        label: 'State',
        choices: labelled(reversalStatuses, {
          requested: 'in progress',
          refused: 'not made',
          taken: 'money taken',
          returned: 'money returned',
        }),
      },
      account: { label: 'Account', choices: { blocked: 'blocked', active: 'active' } },
    },
    caption: 'Disputes and refunds',
    search: 'Account, deposit or id of the provider',
    orderedBy: 'Since',
    file: 'disputes-and-refunds',
    load: async (_, { kind, account, ...page }) => {
      await caughtUp()
      const rows = await reversalsAfter(db, {
        ...page,
        reason: kind,
        ...(account !== undefined && { blocked: account === 'blocked' }),
      })
      const emails = await emailsOf(pool, [...new Set(rows.map(({ accountId }) => accountId))])
      return rows.map((row) => ({ ...row, email: emails.get(row.accountId) ?? null }))
    },
    keyOf: ({ openedAt, rowId }) => afterText(openedAt, rowId),
    columns: (_) => [
      nameColumn('Kind', ({ reason, reversalId, depositId }) => ({
        text: reason === 'chargeback' ? 'Dispute' : 'Refund',
        href: depositId && `/console/operator/deposits/${depositId}`,
        note: reversalId,
      })),
      stateColumn('State', (row) => [reversalState(row), badgeTones[row.status]]),
      microsColumn('Amount', ({ amountMicros }) => amountMicros, { place: 'lead' }),
      microsColumn('Taken', ({ takenMicros }) => takenMicros),
      nameColumn('Account', ({ email, accountId, blocked }) => ({
        text: email ?? accountId,
        href: `/console/operator/accounts/${accountId}`,
        note: blocked ? 'blocked' : null,
      })),
      timeColumn('Since', ({ openedAt }) => openedAt, { place: 'plain' }),
      textColumn('Gateway', ({ gateway }) => gateway, { place: 'minor' }),
      idColumn('Deposit', ({ depositId }) => depositId),
      idColumn('Id', ({ reversalId }) => reversalId, { place: 'file' }),
      idColumn('Account id', ({ accountId }) => accountId, { place: 'file' }),
    ],
    empty: 'There are no disputes and no refunds.',
    cliEquivalents: () => ['bin/farebox deposits reversals'],
  }),
]

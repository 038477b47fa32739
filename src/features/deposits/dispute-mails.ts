import { hot } from '../../../projections/groups.ts'
import type { WalletAdjusted } from '../../domain/ledger/events.ts'
import { transactionIdOf } from '../../domain/ledger/movements.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { microsToCentsCeil } from '../../kernel/money.ts'
import { ledgerStream } from '../../kernel/streams.ts'
import { dollarText } from '../../platform/ui/text.ts'
import type { RunningQueue } from '../../platform/work/queue.ts'
import {
  type AccountMail,
  type AccountMailDependencies,
  type Accounts,
  accountMailQueue,
  accountMailWorker,
  type Contact,
  startAccountMails,
} from '../accounts/index.ts'
import { topupDebtText } from './topup-mails.ts'

/** An e-mail about a dispute that took money from a wallet. */
type DisputeMail = AccountMail & { readonly transaction_id: string }

export const disputeMails = accountMailQueue({
  name: 'dispute-mails',
  table: 'work.dispute_mails',
  key: ['transaction_id'],
})

export const disputeMailWorker = accountMailWorker(
  disputeMails,
  'Sends e-mails about disputes that took money from a wallet',
)

/** Sends an e-mail for each dispute that takes money from a wallet: what happened, what is blocked, and whom to ask. */
export const startDisputeMails = (
  dependencies: AccountMailDependencies & {
    readonly accounts: Pick<Accounts, 'emailOf' | 'read'>
    /** Where customers get help; null: no address is set. */
    readonly contact: Contact
  },
): RunningQueue => {
  const { accounts, name, origin, contact } = dependencies
  return startAccountMails<DisputeMail, RecordedEvent<WalletAdjusted>>(dependencies, {
    worker: disputeMailWorker,
    queue: disputeMails,
    group: hot.name,
    notices: 'read.dispute_notices',
    causeOf: (event, mail) => {
      if (event.type !== 'WalletAdjusted' || event.stream !== ledgerStream(mail.account_id)) return null
      const cause = event as RecordedEvent<WalletAdjusted>
      const { reason, amountMicros } = cause.data
      const isDispute = reason === 'chargeback' && amountMicros < 0
      return isDispute && transactionIdOf(event.id) === mail.transaction_id ? cause : null
    },
    write: async ({ data, metadata }, { account_id: accountId, transaction_id: id }) => {
      const { depositId, amountMicros, owedAfterMicros = 0 } = data
      const cause = {
        actor: { kind: 'system', name: disputeMails.name },
        correlationId: metadata.correlationId,
      } as const
      const account = await accounts.read(accountId, cause)
      const lines = [
        `A payment of your account was disputed at the bank of the payer. The bank took back ${dollarText(microsToCentsCeil(0 - amountMicros))}.`,
        account?.blocked &&
          'The account is blocked until we have cleared this with you: it can read but not change or buy anything.',
        topupDebtText(microsToCentsCeil(owedAfterMicros)),
      ]
      const links = [
        contact !== null && `Contact us: ${contact}`,
        depositId !== undefined && `The deposit: ${origin()}/console/deposits/${depositId}`,
        `Transactions: ${origin()}/console/transactions`,
      ]
      return {
        id,
        subject: `A payment was disputed at ${name}`,
        text: `${lines.filter(Boolean).join('\n')}

${links.filter(Boolean).join('\n')}
`,
      }
    },
  })
}

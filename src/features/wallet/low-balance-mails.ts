import { webhookDue } from '../../../projections/groups.ts'
import type { LedgerEvent } from '../../domain/ledger/events.ts'
import { fallsBelow, transactionIdOf } from '../../domain/ledger/movements.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import { ledgerStream } from '../../kernel/streams.ts'
import { dollarText } from '../../platform/ui/text.ts'
import type { RunningQueue } from '../../platform/work/queue.ts'
import {
  type AccountMail,
  type AccountMailDependencies,
  accountMailQueue,
  accountMailWorker,
  startAccountMails,
} from '../accounts/index.ts'

/** An e-mail about one fall of an available balance below the threshold. */
type LowBalanceMail = AccountMail & {
  readonly transaction_id: string
  readonly threshold_micros: number
}

export const lowBalanceMails = accountMailQueue({
  name: 'low-balance-mails',
  table: 'work.low_balance_mails',
  key: ['transaction_id'],
  columns: ['threshold_micros'],
})

export const lowBalanceMailWorker = accountMailWorker(lowBalanceMails, 'Sends e-mails about low balances')

/** Sends an e-mail for each fall of an available balance below the threshold of its account. */
export const startLowBalanceMails = (dependencies: AccountMailDependencies): RunningQueue =>
  startAccountMails<LowBalanceMail, RecordedEvent<LedgerEvent>>(dependencies, {
    worker: lowBalanceMailWorker,
    queue: lowBalanceMails,
    group: webhookDue.name,
    notices: 'read.low_balances',
    causeOf: (event, mail) => {
      if (event.stream !== ledgerStream(mail.account_id)) return null
      const cause = event as RecordedEvent<LedgerEvent>
      return transactionIdOf(event.id) === mail.transaction_id && fallsBelow(cause, mail.threshold_micros)
        ? cause
        : null
    },
    write: ({ data }, { transaction_id: id, threshold_micros: threshold }) => ({
      id,
      subject: `Low balance at ${dependencies.name}`,
      text: `The available balance of your account is ${dollarText(microsToCentsFloor(data.availableAfterMicros))}. It fell below your threshold of ${dollarText(microsToCentsFloor(threshold))}.

Transaction: ${id}
Add money: ${dependencies.origin()}/console/top-up
Change the threshold: ${dependencies.origin()}/console/low-balance
`,
    }),
  })

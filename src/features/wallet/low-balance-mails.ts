import { webhookDue } from '../../../projections/groups.ts'
import type { LedgerEvent } from '../../domain/ledger/events.ts'
import { fallsBelow, transactionIdOf } from '../../domain/ledger/movements.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import { ledgerStream } from '../../kernel/streams.ts'
import { dollarText } from '../../platform/ui/text.ts'
import type { RunningQueue } from '../../platform/work/queue.ts'
import type { QueueTable } from '../../platform/work/queue-table.ts'
import { worker } from '../../platform/work/worker.ts'
import {
  type AccountMail,
  type AccountMailDependencies,
  collectedPerRun,
  startAccountMails,
} from '../accounts/index.ts'

/** An e-mail about one fall of an available balance below the threshold. */
type LowBalanceMail = AccountMail & {
  readonly transaction_id: string
  readonly threshold_micros: number
}

export const lowBalanceMails: QueueTable = {
  name: 'low-balance-mails',
  table: 'work.low_balance_mails',
  key: ['transaction_id'],
  owner: 'account_id',
  longestWaitMs: 3_600_000,
  columns: ['position', 'threshold_micros'],
}

export const lowBalanceMailWorker = worker({
  name: lowBalanceMails.name,
  about: 'Sends e-mails about low balances',
  trigger: { everyMs: 2_000, quietMs: 20_000 },
  per: 'process',
  process: 'server',
})

/** Sends an e-mail for each fall of an available balance below the threshold of its account. */
export const startLowBalanceMails = (dependencies: AccountMailDependencies): RunningQueue =>
  startAccountMails<LowBalanceMail, RecordedEvent<LedgerEvent>>(dependencies, {
    worker: lowBalanceMailWorker,
    queue: lowBalanceMails,
    group: webhookDue.name,
    collectSql: `
      insert into work.low_balance_mails (transaction_id, account_id, position, lineage, threshold_micros, due_at)
      select l.transaction_id, l.account_id, l.position, k.lineage, l.threshold_micros, $1::timestamptz
        from engine.checkpoints k, read.low_balances l
       where k.name = $2::text
         and l.position > (select coalesce(max(position), 0) from work.low_balance_mails where lineage = k.lineage)
       order by l.position limit ${collectedPerRun}
      on conflict (transaction_id) do update set position = excluded.position, lineage = excluded.lineage`,
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

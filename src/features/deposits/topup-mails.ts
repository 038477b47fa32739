import { hot } from '../../../projections/groups.ts'
import { maxFailures, retryAfterMs, type TopupFailed } from '../../domain/deposits/topups.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import { topupStream } from '../../kernel/streams.ts'
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

/** An e-mail about one failed top-up. */
type TopupMail = AccountMail & { readonly topup_id: string }

export const topupMails: QueueTable = {
  name: 'topup-mails',
  table: 'work.topup_mails',
  key: ['topup_id'],
  owner: 'account_id',
  longestWaitMs: 3_600_000,
  columns: ['position'],
}

/** What happened, and what the customer can do. */
export const topupFailureText = (reason: TopupFailed['data']['reason']): string => {
  switch (reason) {
    case 'authentication_required':
      return 'The bank requires you to confirm each payment. Save another card, or top up by hand.'
    case 'card_declined':
      return 'The bank declined the card. Ask the bank, or save another card.'
    case 'expired_card':
      return 'The card has expired. Save another card.'
    case 'card_removed':
      return 'The card was removed. Save a card again.'
    case 'payment_failed':
      return 'The payment provider refused the payment. Save another card, or top up by hand.'
    case 'no_answer':
      return 'The payment provider did not answer for a long time. The card was not charged.'
    default:
      return reason satisfies never
  }
}

/** When a failed top-up is tried again, in words. */
export const nextTopupText = (failures: number): string => {
  const pauseMs = retryAfterMs[failures - 1]
  return pauseMs === undefined
    ? `After ${maxFailures} failures in a row automatic top-up is off. Turn it on again after you have saved a card that works.`
    : `The next attempt is in ${pauseMs / 3_600_000} h, if the balance is still below the threshold.`
}

export const topupMailWorker = worker({
  name: topupMails.name,
  about: 'Sends e-mails about failed automatic top-ups',
  trigger: { everyMs: 2_000, quietMs: 20_000 },
  per: 'process',
  process: 'server',
})

/** Sends an e-mail for each failed top-up. */
export const startTopupMails = (dependencies: AccountMailDependencies): RunningQueue =>
  startAccountMails<TopupMail, RecordedEvent<TopupFailed>>(dependencies, {
    worker: topupMailWorker,
    queue: topupMails,
    group: hot.name,
    collectSql: `
      insert into work.topup_mails (topup_id, account_id, position, lineage, due_at)
      select f.topup_id, f.account_id, f.position, k.lineage, $1::timestamptz
        from engine.checkpoints k, read.topup_failures f
       where k.name = $2::text
         and f.position > (select coalesce(max(position), 0) from work.topup_mails where lineage = k.lineage)
       order by f.position limit ${collectedPerRun}
      on conflict (topup_id) do update set position = excluded.position, lineage = excluded.lineage`,
    causeOf: (event, mail) => {
      if (event.stream !== topupStream(mail.account_id) || event.type !== 'TopupFailed') return null
      const cause = event as RecordedEvent<TopupFailed>
      return cause.data.topupId === mail.topup_id ? cause : null
    },
    write: ({ data: { topupId, amountCents, reason, failures } }) => ({
      id: topupId,
      subject: `Automatic top-up failed at ${dependencies.name}`,
      text: `The automatic top-up of ${dollarText(amountCents)} failed.

${topupFailureText(reason)}
${nextTopupText(failures)}

Automatic top-up: ${dependencies.origin()}/console/auto-topup
Add money by hand: ${dependencies.origin()}/console/top-up
`,
    }),
  })

import { hot } from '../../../projections/groups.ts'
import type { DepositInvoiceCreated } from '../../domain/deposits/events.ts'
import { isPayable } from '../../domain/deposits/fold.ts'
import {
  maxFailures,
  pauseIdOf,
  retryAfterMs,
  type TopupFailed,
  type TopupPaused,
  type TopupPauseReason,
  topupDepositIdOf,
} from '../../domain/deposits/topups.ts'
import type { Cause, RecordedEvent } from '../../kernel/event.ts'
import type { DepositId } from '../../kernel/ids.ts'
import { depositStream, topupStream } from '../../kernel/streams.ts'
import { dollarText, utcText } from '../../platform/ui/text.ts'
import type { RunningQueue } from '../../platform/work/queue.ts'
import {
  type AccountMail,
  type AccountMailDependencies,
  accountMailQueue,
  accountMailWorker,
  startAccountMails,
} from '../accounts/index.ts'
import type { Deposits } from './deposit-service.ts'

/** An e-mail about one top-up, its invoice or its failure, or about a pause. */
type TopupMail = AccountMail & { readonly topup_id: string; readonly notice: 'failed' | 'invoice' | 'paused' }
type TopupNotice =
  | RecordedEvent<TopupFailed>
  | RecordedEvent<TopupPaused>
  | RecordedEvent<DepositInvoiceCreated>

export const topupMails = accountMailQueue({
  name: 'topup-mails',
  table: 'work.topup_mails',
  key: ['topup_id', 'notice'],
})

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
    case 'paused':
      return 'Automatic top-up was paused before the payment. Nothing was paid.'
    case 'payment_failed':
      return 'The payment provider refused the payment. Save another card, pay by crypto, or top up by hand.'
    case 'no_answer':
      return 'The payment provider did not answer for a long time. Nothing was paid.'
    case 'invoice_expired':
      return 'The invoice was not paid in time. Pay the next one, or top up by hand.'
    default:
      return reason satisfies never
  }
}

/** Why automatic top-up is paused, and what ends the pause. */
export const topupPauseText = (reason: TopupPauseReason): string => {
  const untilResumed = 'Nothing is charged automatically until you resume it.'
  switch (reason) {
    case 'deposit_refund':
      return `Automatic top-up is paused because a payment was refunded. ${untilResumed}`
    case 'chargeback':
      return `Automatic top-up is paused because a payment was disputed at the bank. ${untilResumed}`
    case 'account_blocked':
      return `Automatic top-up is paused because the account was blocked. ${untilResumed}`
    case 'monthly_maximum':
      return 'The next automatic top-up would exceed your monthly maximum. It is made in the next month (UTC), or when you raise the maximum.'
    default:
      return reason satisfies never
  }
}

/** What the next payments pay first; nothing without a debt. */
export const topupDebtText = (owedCents: number): string =>
  owedCents === 0
    ? ''
    : `The account owes ${dollarText(owedCents)}. The next payments, also automatic ones, pay this debt first.`

/** When a failed top-up is tried again, in words. */
export const nextTopupText = (failures: number): string => {
  const pauseMs = retryAfterMs[failures - 1]
  return pauseMs === undefined
    ? `After ${maxFailures} failures in a row automatic top-up is off. Turn it on again when it can be paid.`
    : `The next attempt is in ${pauseMs / 3_600_000} h, if the balance is still below the threshold.`
}

export const topupMailWorker = accountMailWorker(
  topupMails,
  'Sends e-mails about invoices, failures and pauses of automatic top-ups',
)

/** Sends an e-mail for each failed top-up, each pause, and each invoice of a top-up, with its payment link. */
export const startTopupMails = (
  dependencies: AccountMailDependencies & { readonly deposits: Pick<Deposits, 'read' | 'payUrlOf'> },
): RunningQueue => {
  const { name, origin, deposits, clock } = dependencies

  const failureMail = ({ topupId, amountCents, reason, failures }: TopupFailed['data']) => ({
    id: topupId,
    subject: `Automatic top-up failed at ${name}`,
    text: `The automatic top-up of ${dollarText(amountCents)} failed.

${topupFailureText(reason)}
${nextTopupText(failures)}

Automatic top-up: ${origin()}/console/auto-topup
Add money by hand: ${origin()}/console/top-up
`,
  })

  const pauseMail = (pauseId: string, { reason, owedCents }: TopupPaused['data']) => ({
    id: pauseId,
    subject:
      reason === 'monthly_maximum'
        ? `Automatic top-up reached its monthly maximum at ${name}`
        : `Automatic top-up is paused at ${name}`,
    text: `${[topupPauseText(reason), topupDebtText(owedCents)].filter(Boolean).join('\n')}

Automatic top-up: ${origin()}/console/auto-topup
Add money by hand: ${origin()}/console/top-up
`,
  })

  const invoiceMail = async (depositId: DepositId, cause: Cause) => {
    const deposit = await deposits.read(depositId, cause)
    if (!deposit?.invoice) return null
    const { status, invoice, details } = deposit
    const { expiresAt } = invoice
    if (!isPayable({ status, expiresAt }, clock())) return null
    const page = `${origin()}/console/deposits/${depositId}`
    return {
      id: depositId,
      subject: `Invoice for your automatic top-up at ${name}`,
      text: `Your balance is below the threshold of your automatic top-up. Pay the invoice of ${dollarText(details.amountCents)} before ${utcText(expiresAt)}.

Pay the invoice: ${(await deposits.payUrlOf(deposit)) ?? page}

The deposit: ${page}
Automatic top-up: ${origin()}/console/auto-topup
`,
    }
  }

  return startAccountMails<TopupMail, TopupNotice>(dependencies, {
    worker: topupMailWorker,
    queue: topupMails,
    group: hot.name,
    notices: 'read.topup_notices',
    causeOf: (event, { account_id: accountId, topup_id: topupId, notice }) => {
      const { id, stream, type } = event
      if (notice === 'invoice') {
        const isCause =
          type === 'DepositInvoiceCreated' && stream === depositStream(topupDepositIdOf(accountId, topupId))
        return isCause ? (event as RecordedEvent<DepositInvoiceCreated>) : null
      }
      if (stream !== topupStream(accountId)) return null
      if (notice === 'paused')
        return type === 'TopupPaused' && pauseIdOf(id) === topupId
          ? (event as RecordedEvent<TopupPaused>)
          : null
      if (type !== 'TopupFailed') return null
      const cause = event as RecordedEvent<TopupFailed>
      return cause.data.topupId === topupId ? cause : null
    },
    write: (event, mail) => {
      switch (event.type) {
        case 'TopupFailed':
          return failureMail(event.data)
        case 'TopupPaused':
          return pauseMail(mail.topup_id, event.data)
        default:
          return invoiceMail(topupDepositIdOf(mail.account_id, mail.topup_id), {
            actor: { kind: 'system', name: topupMails.name },
            correlationId: event.metadata.correlationId,
          })
      }
    },
  })
}

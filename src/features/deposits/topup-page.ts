import {
  maxMonthlyCents,
  minTopupCents,
  settingsProblem,
  type TopupMethod,
  type TopupState,
  topupMethods,
} from '../../domain/deposits/topups.ts'
import { maxDepositCents } from '../../domain/payments/payments.ts'
import type { Clock } from '../../kernel/clock.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import { ApiError } from '../../platform/http/errors.ts'
import { choicesOf, type FormInput, fieldOf, formOf, postButton, problemsIn } from '../../platform/ui/form.ts'
import { html } from '../../platform/ui/html.ts'
import {
  type AccountVisit,
  accountPage,
  type ConsolePage,
  goTo,
  refused,
  refusedBy,
} from '../../platform/ui/page.ts'
import { detailsOf } from '../../platform/ui/table.ts'
import { amountText, dollarText, oneOf, parseCents, timeText } from '../../platform/ui/text.ts'
import type { Wallets } from '../wallet/index.ts'
import type { AutoTopups } from './auto-topup.ts'
import { nextTopupText, topupDebtText, topupFailureText, topupPauseText } from './topup-mails.ts'
import { topupPagePath, topupRecord } from './topup-routes.ts'

const path = topupPagePath

const methodTexts: Readonly<Record<TopupMethod, { readonly label: string; readonly hint: string }>> = {
  card: { label: 'Saved card', hint: 'The card is charged.' },
  crypto: { label: 'Crypto', hint: 'An e-mail has the link of an invoice. No card is needed.' },
}

const stateText = ({ settings, method, open, pause }: TopupState): string => {
  if (settings === null) return 'Off'
  if (pause !== null) return 'Paused'
  if (open !== null)
    return open.method === null ? 'On. An invoice awaits payment' : 'On. A top-up is being paid'
  return method === null && settings.method !== 'crypto' ? 'On, but no card is saved: nothing is paid' : 'On'
}

/** The automatic top-up of the wallet: its state, its card and its settings. */
export const topupPage = ({
  autoTopups,
  wallets,
  clock,
  origin,
}: {
  readonly autoTopups: AutoTopups
  readonly wallets: Pick<Wallets, 'read'>
  readonly clock: Clock
  /** The public URL of the console. */
  readonly origin: () => string
}): ConsolePage => {
  const centsOf = (typed: FormInput, name: string, max: number): number | null | undefined => {
    const text = typed.text(name)
    return text === '' ? null : parseCents(text, max)
  }

  const save = async ({ account: { accountId }, cause }: AccountVisit, typed: FormInput) => {
    const thresholdCents = centsOf(typed, 'threshold', maxDepositCents)
    const amountCents = centsOf(typed, 'amount', maxDepositCents)
    const targetBalanceCents = centsOf(typed, 'target', maxDepositCents)
    const monthlyMaxCents = centsOf(typed, 'max', maxMonthlyCents)
    const method = oneOf(topupMethods, typed.text('method')) ?? 'card'
    const dollars = 'Type dollars above 0 such as 50 or 50.25.'
    const problems = problemsIn({
      threshold: !thresholdCents && dollars,
      amount: (amountCents === undefined || amountCents === 0) && dollars,
      target: (targetBalanceCents === undefined || targetBalanceCents === 0) && dollars,
      max: !monthlyMaxCents && dollars,
    })
    if (problems || !thresholdCents || !monthlyMaxCents) return refused(problems ?? {})
    if ((amountCents == null) === (targetBalanceCents == null))
      return refused({ amount: 'Fill in either the amount or the target balance.' })
    const settings = {
      thresholdCents,
      amountCents: amountCents ?? null,
      targetBalanceCents: targetBalanceCents ?? null,
      monthlyMaxCents,
      method,
    }
    if (settingsProblem(settings) !== null)
      return refused({
        form: `A top-up is from ${dollarText(minTopupCents)} to ${dollarText(maxDepositCents)}. A target balance is at least ${dollarText(minTopupCents)} above the threshold. The monthly maximum covers at least one top-up.`,
      })
    try {
      await autoTopups.set(accountId, { ...settings, resume: false }, cause)
    } catch (error) {
      return refusedBy(error)
    }
    return goTo(path, 'Automatic top-up is on.')
  }

  return accountPage({
    path,
    name: 'autoTopup',
    summary: 'Tops up the wallet automatically by a saved card, or by invoices for crypto',
    show: async ({ account: { accountId }, cause, form, query }) => {
      const [session] = /^cs_\w{1,200}$/.exec(query.get('session') ?? '') ?? []
      if (session !== undefined) await autoTopups.takeSession(accountId, session)
      const topup = await autoTopups.read(accountId, cause)
      const record = topupRecord(topup, clock())
      const owedMicros = (await wallets.read(accountId, cause)).receivableMicros
      const debtText = topupDebtText(-microsToCentsFloor(-owedMicros))
      const { method, settings, lastFailure, failures } = topup
      const dollarField = (name: string, label: string, hint: string, value: number | null | undefined) =>
        fieldOf(
          { name, label, hint, inputmode: 'decimal', maxlength: 12, value: value ? amountText(value) : '' },
          form,
        )
      return {
        title: 'Automatic top-up',
        body: html`${detailsOf([
          ['State', stateText(topup)],
          ['Card', method ? `${method.brand} ending in ${method.lastFour}` : 'none'],
          ['This month', `${dollarText(record.monthCents)} topped up automatically`],
        ])}
${
  record.paused === null
    ? null
    : html`<div class="message warn"><p>${topupPauseText(record.paused.reason)}</p>${record.paused.until === null ? postButton(form, { label: 'Resume automatic top-up', name: 'do', value: 'resume' }) : null}</div>`
}
${debtText === '' ? null : html`<div class="message warn"><p>${debtText}</p></div>`}
${
  lastFailure === null
    ? null
    : html`<div class="message warn"><p>The last top-up failed. ${topupFailureText(lastFailure)} ${nextTopupText(failures)}</p>${record.failure?.retryAt ? html`<p>Next attempt: ${timeText(record.failure.retryAt)}</p>` : null}</div>`
}
<p>${postButton(form, { label: method ? 'Replace card' : 'Save a card', name: 'do', value: 'card' })}${method || settings ? postButton(form, { label: method ? 'Turn off and remove card' : 'Turn off', name: 'do', value: 'remove' }) : null}</p>
<h2>Settings</h2>
${formOf(form, {
  fields: [
    dollarField(
      'threshold',
      'Threshold, USD',
      'A top-up is made when the available balance falls below it.',
      settings?.thresholdCents,
    ),
    dollarField(
      'amount',
      'Amount, USD',
      'The amount of each top-up. Leave it empty to use a target balance.',
      settings?.amountCents,
    ),
    dollarField(
      'target',
      'Target balance, USD',
      'The balance after a top-up. Leave it empty to use a fixed amount.',
      settings?.targetBalanceCents,
    ),
    dollarField(
      'max',
      'Monthly maximum, USD',
      'The most that is paid automatically in a calendar month (UTC).',
      settings?.monthlyMaxCents,
    ),
    choicesOf(
      {
        name: 'method',
        legend: 'Payment method',
        choices: topupMethods.map((value) => ({ value, ...methodTexts[value] })),
        chosen: [record.method ?? 'card'],
        one: true,
      },
      form,
    ),
  ],
  submit: settings ? 'Save settings' : 'Turn on',
  back: '/console/transactions',
})}`,
        cliEquivalents: [
          'curl $API/wallet/auto-topup -H "X-API-Key: $KEY"',
          `curl -X PUT $API/wallet/auto-topup -H "X-API-Key: $KEY" --json '{"thresholdCents": 2000, "amountCents": 5000, "monthlyMaxCents": 50000}'`,
        ],
      }
    },
    act: {
      run: async (visit, typed) => {
        const { accountId } = visit.account
        switch (typed.text('do')) {
          case 'remove':
            await autoTopups.remove(accountId, visit.cause)
            return goTo(path, 'Automatic top-up is off, and no card is saved.')
          case 'resume': {
            const { settings } = await autoTopups.read(accountId, visit.cause)
            if (settings === null) return goTo(path, 'Automatic top-up is off.')
            try {
              await autoTopups.set(accountId, { ...settings, resume: true }, visit.cause)
            } catch (error) {
              return refusedBy(error)
            }
            return goTo(path, 'Automatic top-up goes on.')
          }
          case 'card':
            try {
              const url = await autoTopups.cardPage(accountId, `${origin()}${path}`, visit.cause)
              return {
                title: 'Save a card',
                body: html`<p>You save the card on the page of the payment provider. We get no data of the card but its brand and its last four digits.</p>
<p><a class="button first" href="${url}" rel="noreferrer">Go to the payment provider</a></p>`,
              }
            } catch (error) {
              if (error instanceof ApiError && error.code === 'gateway_unavailable')
                return {
                  ...refused({}, 409),
                  message: html`<div class="message warn"><p>The payment provider does not answer at the moment. No card was saved or changed.</p><p>${postButton(visit.form, { label: 'Try again', name: 'do', value: 'card' })}</p></div>`,
                }
              return refusedBy(error)
            }
          default:
            return save(visit, typed)
        }
      },
    },
  })
}

import { readLowBalanceMicros } from '../../../projections/accounts.ts'
import { microsToCentsFloor } from '../../kernel/money.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import { fieldOf, formOf } from '../../platform/ui/form.ts'
import { accountPage, type ConsolePage, goTo, refused } from '../../platform/ui/page.ts'
import { amountText, dollarText, parseCents } from '../../platform/ui/text.ts'
import type { Accounts } from '../accounts/index.ts'
import { maxCents } from './input-forms.ts'

const path = '/console/low-balance'

/** Sets the threshold of the low-balance notification. */
export const lowBalancePage = ({
  db,
  reads,
  accounts,
}: {
  readonly db: Db
  readonly reads: Pick<Reads, 'settled'>
  readonly accounts: Pick<Accounts, 'setLowBalance'>
}): ConsolePage =>
  accountPage({
    path,
    name: 'setLowBalance',
    summary: 'Sets the balance below which the account is notified',
    show: async ({ account: { accountId }, form }) => {
      await reads.settled(accountId)
      const thresholdMicros = await readLowBalanceMicros(db, accountId)
      const field = {
        name: 'threshold',
        label: 'Threshold, USD',
        hint: 'You get an e-mail and the webhook wallet.low_balance each time the available balance falls below it. Empty: never.',
        inputmode: 'decimal',
        maxlength: 16,
        value: thresholdMicros === null ? '' : amountText(microsToCentsFloor(thresholdMicros)),
      } as const
      return {
        title: 'Low balance',
        body: formOf(form, {
          fields: [fieldOf(field, form)],
          submit: 'Set threshold',
          back: '/console/transactions',
        }),
        cliEquivalents: [
          `curl -X PUT $API/wallet/low-balance -H "X-API-Key: $KEY" --json '{"thresholdCents": 5000}'`,
        ],
      }
    },
    act: {
      run: async ({ account: { accountId }, cause }, typed) => {
        const text = typed.text('threshold')
        const thresholdCents = text === '' ? null : parseCents(text, maxCents)
        if (thresholdCents === undefined || thresholdCents === 0)
          return refused({
            threshold: `Type dollars above 0 such as 50 or 50.25, at most ${maxCents / 100}.`,
          })
        const done = await accounts.setLowBalance(accountId, thresholdCents, cause)
        if (done.outcome === 'refused') throw new Error(`the account ${accountId} is gone`)
        return goTo(
          path,
          thresholdCents === null
            ? 'You are not notified of a low balance.'
            : `You are notified when the balance falls below ${dollarText(thresholdCents)}.`,
        )
      },
    },
  })

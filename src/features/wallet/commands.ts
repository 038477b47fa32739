import { adjustmentReasons, creditKinds, isAtGateway } from '../../domain/ledger/adjustment-reasons.ts'
import { command } from '../../platform/cli/command.ts'
import { defaulted, oneOf, option, required, wholeNumber } from '../../platform/cli/input.ts'
import {
  account,
  adjustmentCents,
  creditCents,
  gatewayProblem,
  maxCents,
  reference,
  reversalGateway,
} from './for-commands.ts'

const runs = () => import('./run-commands.ts')

export const creditInput = {
  account,
  cents: creditCents,
  kind: required('<kind>', 'why', oneOf(creditKinds)),
  reference,
}

export const adjustInput = {
  account,
  cents: adjustmentCents,
  reference,
  reason: defaulted('<reason>', 'why', 'correction', oneOf(adjustmentReasons)),
  gateway: reversalGateway,
}

export const commands = [
  command({
    name: 'wallet credit',
    about: 'credit a wallet; the same reference is credited only once for each kind',
    input: creditInput,
    details: `A payment was received elsewhere, such as a bank transfer: it is money (assets:gateway:manual). Goodwill and a correction
are gifts: they are expenses (expenses:adjustments).`,
    run: async () => (await runs()).credit,
  }),
  command({
    name: 'wallet adjust',
    about:
      'correct a wallet up or down; the shortfall of a chargeback or a deposit_refund is owed, and a chargeback blocks the account; a bad_debt is at most what is owed',
    input: adjustInput,
    check: ({ reason, gateway }) => (isAtGateway(reason) === (gateway !== undefined) ? null : gatewayProblem),
    run: async () => (await runs()).adjust,
  }),
  command({
    name: 'wallet write-off',
    about:
      'write off what an account owes after refunds and disputes, to the micro-dollar (expenses:bad-debts)',
    input: { account, reference },
    run: async () => (await runs()).writeOff,
  }),
  command({
    name: 'wallet low-balance',
    about: 'set the balance below which an account is notified; without an amount it is removed',
    input: {
      account,
      cents: option('<n>', 'whole cents above 0', wholeNumber(1, maxCents)),
    },
    run: async () => (await runs()).setLowBalance,
  }),
]

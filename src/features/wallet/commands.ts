import { adjustmentReasons } from '../../domain/ledger/adjustment-reasons.ts'
import { command } from '../../platform/cli/command.ts'
import { defaulted, oneOf } from '../../platform/cli/input.ts'
import { account, adjustmentCents, chargebackGateway, creditCents, reference } from './for-commands.ts'

const runs = () => import('./run-commands.ts')

export const adjustInput = {
  account,
  cents: adjustmentCents,
  reference,
  reason: defaulted('<reason>', 'why', 'correction', oneOf(adjustmentReasons)),
  gateway: chargebackGateway,
}

export const commands = [
  command({
    name: 'wallet credit',
    about: 'credit a wallet; the same reference is credited only once',
    input: { account, cents: creditCents, reference },
    run: async () => (await runs()).credit,
  }),
  command({
    name: 'wallet adjust',
    about: 'correct a wallet up or down; a chargeback also blocks the account, and a shortfall is owed',
    input: adjustInput,
    check: ({ reason, gateway }) =>
      (reason === 'chargeback') === (gateway !== undefined)
        ? null
        : 'give --gateway with --reason chargeback, and only then',
    run: async () => (await runs()).adjust,
  }),
]

import { depositStatuses } from '../../domain/deposits/fold.ts'
import type { DepositId } from '../../kernel/ids.ts'
import { command } from '../../platform/cli/command.ts'
import { argument, defaulted, flag, id, required, wholeNumber } from '../../platform/cli/input.ts'
import { resourceCommands } from '../accounts/for-commands.ts'
import { referenceText } from '../wallet/for-commands.ts'

const runs = () => import('./run-commands.ts')

export const reviewInput = {
  deposit: argument('<deposit>', 'its id', id<DepositId>),
  number: argument('<number>', 'the number of the change', wholeNumber(1)),
  note: required('<text>', 'what was done; stored in the log permanently: name no person', referenceText),
}

export const commands = [
  ...resourceCommands(
    { name: 'deposits', one: 'deposit', exampleId: 'dep_…', statuses: depositStatuses },
    async () => (await runs()).deposits,
  ),
  command({
    name: 'deposits changes',
    about: 'list changes that payment providers reported and that moved no money, from the read tables',
    input: {
      all: flag('include closed changes'),
      limit: defaulted('<n>', 'at most this many', 100, wholeNumber(1, 1_000)),
    },
    examples: ['npx farebox deposits changes'],
    columns: {
      deposit: 'depositId',
      number: 'number',
      what: 'change',
      of: 'reference',
      amount: 'amount',
      gateway: 'gatewayId',
      reported: 'reportedAt',
      closed: 'reviewedAt',
    },
    run: async () => (await runs()).listChanges,
  }),
  command({
    name: 'deposits review',
    about: 'close a change that a payment provider reported, after a review; it moves no money',
    input: reviewInput,
    examples: [
      'npx farebox deposits review dep_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b 1 --note "taken back by hand"',
    ],
    run: async () => (await runs()).review,
  }),
]

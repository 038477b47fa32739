import type { AccountId } from '../../../../../../src/kernel/ids.ts'
import { command } from '../../../../../../src/platform/cli/command.ts'
import { argument, id } from '../../../../../../src/platform/cli/input.ts'

export const sampleThingCommands = [
  command({
    name: 'sample-area sample-thing',
    about: 'set the sample thing of an account',
    input: {
      account: argument('<account>', 'the account', id<AccountId>),
      value: argument('<value>', 'the new value; stored in the log permanently: name no person'),
    },
    examples: ['bin/farebox sample-area sample-thing acc_0199f3b2c1d07a3e9b1f2c4d5e6f7a8b example'],
    run: async () => (await import('./run-sample-thing-command.ts')).setByOperator,
  }),
]

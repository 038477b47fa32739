import { accountRef } from '../../../../../../src/domain/accounts/fold.ts'
import type { AccountId } from '../../../../../../src/kernel/ids.ts'
import type { CliContext } from '../../../../../../src/platform/cli/cli-context.ts'
import { CliMisuse, type CliOutput, notFound } from '../../../../../../src/platform/cli/output.ts'
import { readState } from '../../../../../../src/platform/commands/command.ts'
import { maxSampleThingLength } from '../../domain/sample-area/sample-thing.ts'
import { setSampleThing } from './sample-thing-service.ts'

export const setByOperator = async (
  context: CliContext,
  { account, value }: { readonly account: AccountId; readonly value: string },
): Promise<CliOutput> => {
  const { runner } = context
  if ((await readState(runner, { ...context, name: 'read-account' }, accountRef(account))) === null)
    throw notFound('no account has this id')
  const set = await setSampleThing(runner, account, value, context)
  if (set.outcome === 'refused')
    throw new CliMisuse(`the sample thing must have 1 to ${maxSampleThingLength} characters`)
  return { json: { account, value, changed: set.changed }, text: set.changed ? 'set' : 'was set before' }
}

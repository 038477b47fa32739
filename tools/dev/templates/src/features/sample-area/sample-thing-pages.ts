import type { CommandRunner } from '../../../../../../src/platform/commands/command.ts'
import type { Reads } from '../../../../../../src/platform/projections/read-your-writes.ts'
import { fieldOf, formOf } from '../../../../../../src/platform/ui/form.ts'
import { accountPage, type ConsolePage, goTo, refused } from '../../../../../../src/platform/ui/page.ts'
import { sampleThingOf } from '../../../projections/sample-thing.ts'
import { maxSampleThingLength } from '../../domain/sample-area/sample-thing.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import { setSampleThing } from './sample-thing-service.ts'

const path = '/console/sample-thing'

export const sampleThingPages = ({
  db,
  reads,
  runner,
}: {
  readonly db: Db
  readonly reads: Pick<Reads, 'settledHere'>
  readonly runner: CommandRunner
}): readonly ConsolePage[] => [
  accountPage({
    path,
    name: 'showSampleThing',
    summary: 'Shows and sets the sample thing of the account',
    show: async ({ account: { accountId }, form }) => {
      // The page shows the last action of the account.
      await reads.settledHere(accountId)
      const value = (await sampleThingOf(db, accountId)) ?? ''
      const field = fieldOf(
        { name: 'value', label: 'Sample thing', required: true, maxlength: maxSampleThingLength, value },
        form,
      )
      return {
        title: 'Sample thing',
        body: formOf(form, { fields: [field], submit: 'Set' }),
        cliEquivalents: [
          'curl $API/sample-thing -H "X-API-Key: $KEY"',
          `curl -X PATCH $API/sample-thing -H "X-API-Key: $KEY" --json '{"value":"example"}'`,
        ],
      }
    },
    act: {
      run: async ({ account, cause }, typed) => {
        const set = await setSampleThing(runner, account.accountId, typed.text('value'), cause)
        // The page is shown again, with the typed values and the problem at its field.
        if (set.outcome === 'refused')
          return refused({ value: `Type 1 to ${maxSampleThingLength} characters.` })
        return goTo(path, 'The sample thing is set.')
      },
    },
  }),
]

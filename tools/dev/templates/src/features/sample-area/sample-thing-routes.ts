import { z } from 'zod'
import type { CommandRunner } from '../../../../../../src/platform/commands/command.ts'
import { causeOf } from '../../../../../../src/platform/http/auth.ts'
import { refuse } from '../../../../../../src/platform/http/errors.ts'
import { accountOnly, type Route, route } from '../../../../../../src/platform/http/route.ts'
import type { Reads } from '../../../../../../src/platform/projections/read-your-writes.ts'
import { sampleThingOf } from '../../../projections/sample-thing.ts'
import { maxSampleThingLength } from '../../domain/sample-area/sample-thing.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import { setSampleThing } from './sample-thing-service.ts'

const SampleThing = z
  .object({ value: z.string().nullable().meta({ description: 'Null if it is not set.' }) })
  .meta({ id: 'SampleThing' })

const common = {
  path: '/api/v1/sample-thing',
  tag: 'Account',
  customer: accountOnly('the sample thing is'),
  responses: { 200: { description: 'The sample thing.', body: SampleThing, example: { value: 'example' } } },
  errors: [],
} as const

export const sampleThingRoutes = ({
  db,
  reads,
  runner,
}: {
  readonly db: Db
  readonly reads: Pick<Reads, 'settledHere'>
  readonly runner: CommandRunner
}): readonly Route[] => [
  route({
    ...common,
    method: 'GET',
    operationId: 'getSampleThing',
    summary: 'Show the sample thing',
    description: 'The sample thing of the account.',
    access: 'any-key',
    writes: false,
    handler: async ({ caller: { accountId }, after }) => {
      await reads.settledHere(accountId, after ?? 0)
      return { status: 200, body: { value: await sampleThingOf(db, accountId) } }
    },
  }),
  route({
    ...common,
    method: 'PATCH',
    operationId: 'updateSampleThing',
    summary: 'Set the sample thing',
    description: 'Sets the sample thing of the account.',
    access: 'buy',
    writes: true,
    body: z.strictObject({ value: z.string().max(maxSampleThingLength) }),
    examples: { body: { value: 'example' } },
    handler: async (request) => {
      const { caller, body } = request
      const set = await setSampleThing(runner, caller.accountId, body.value, causeOf(request))
      if (set.outcome === 'refused') throw refuse('invalid_body', 'value must not be blank')
      return { status: 200, body, position: set.position }
    },
  }),
]

import { column, readTable } from '../../../../../../src/platform/projections/read-model.ts'
import { decideSampleThing } from '../../domain/sample-area/sample-thing.ts'
import { invariant, subjectOf } from './invariant.ts'

/** The sample thing of each account. */
const sampleThingTable = readTable({
  name: 'audit_sample_thing',
  columns: { accountId: column.text(), value: column.text() },
  key: ['accountId'],
})

/** Each event sets an accepted value that differs from the one before. */
export const sampleThingRules = invariant({
  name: 'audit-sample-thing',
  version: 1,
  table: sampleThingTable,
  kind: 'samplething-',
  key: subjectOf,
  on: {
    SampleThingSet: ({ stream, data: { value } }, row, { report }) => {
      const decision = decideSampleThing(row?.value ?? null, value)
      if (decision.outcome === 'refused') report('sample-thing-value', 'its value is not accepted')
      else if (decision.events.length === 0) report('sample-thing-repeated', 'it had this value before')
      return { accountId: subjectOf({ stream }), value }
    },
  },
})

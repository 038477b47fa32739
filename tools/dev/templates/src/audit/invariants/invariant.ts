import {
  type Context,
  invariant as declare,
  subjectOf,
} from '../../../../../../src/audit/invariants/invariant.ts'
import type { RecordedEvent } from '../../../../../../src/kernel/event.ts'
import type { ReadModel, Table } from '../../../../../../src/platform/projections/read-model.ts'
import type { SampleThingEvent } from '../../domain/sample-area/sample-thing.ts'

export { subjectOf }

type Rules<Row extends object> = {
  readonly name: string
  readonly version: number
  readonly table: Table<Row>
  readonly kind: `${string}-`
  readonly key: (event: RecordedEvent<SampleThingEvent>) => string
  readonly on: {
    readonly SampleThingSet: (
      event: RecordedEvent<SampleThingEvent>,
      row: Row | undefined,
      context: Context,
    ) => Row
  }
}

/** Only for the compilation of this template. The created file uses src/audit/invariants/invariant.ts instead. */
export const invariant = declare as unknown as <Row extends object>(rules: Rules<Row>) => ReadModel

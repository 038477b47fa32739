import type { RecordedEvent } from '../../../../src/kernel/event.ts'
import type { AccountId } from '../../../../src/kernel/ids.ts'
import { ownerOf } from '../../../../src/kernel/streams.ts'
import { column, readModel, readTable } from '../../../../src/platform/projections/read-model.ts'
import type { SampleThingEvent } from '../src/domain/sample-area/sample-thing.ts'
import type { Db } from '../src/platform/postgres/kysely.ts'

/** The sample thing of each account that has one. */
export const sampleThingTable = readTable({
  name: 'sample_thing',
  columns: { accountId: column.text(), value: column.text() },
  key: ['accountId'],
})

export const sampleThing = readModel({
  name: 'sample_thing',
  version: 1,
  tables: [sampleThingTable],
  reads: () => [],
  apply: (recorded, rows) => {
    const event = recorded as RecordedEvent<SampleThingEvent>
    switch (event.type) {
      case 'SampleThingSet':
        return rows.put(sampleThingTable, { accountId: ownerOf(event.stream), value: event.data.value })
    }
  },
})

/** The sample thing of an account; null if it has none. */
export const sampleThingOf = async (db: Db, account: AccountId): Promise<string | null> => {
  const row = await db
    .selectFrom('read.sample_thing')
    .select('value')
    .where('accountId', '=', account)
    .executeTakeFirst()
  return row?.value ?? null
}

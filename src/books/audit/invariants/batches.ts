import type { ReadModel, Table } from '../../../../projections/engine/read-model.ts'
import { scrapeBatchIdOf } from '../../../kernel/ids.ts'
import type { RecordedEvent } from '../../../platform/eventstore/event.ts'
import type { ScrapeBatchEvent } from '../../../scrapers/batches/events.ts'
import { scrapeBatchStream } from '../../../terms/streams.ts'
import { violate } from './violation.ts'

/** A batch as it was taken on. `facts`: JSON, what both of its events say. */
type BatchRow = { batch_id: string; facts: string; finished: boolean; last_position: number }

export const batchesTable: Table<BatchRow> = {
  name: 'audit_batches',
  columns: {
    batch_id: { type: 'text' },
    facts: { type: 'text' },
    finished: { type: 'boolean' },
    last_position: { type: 'bigint' },
  },
  key: ['batch_id'],
  indexes: [],
}

const isBatch = (event: RecordedEvent): event is RecordedEvent<ScrapeBatchEvent> =>
  event.type === 'ScrapeBatchAccepted' || event.type === 'ScrapeBatchFinished'

const factsOf = ({ accountId, platform, operation, inputs }: ScrapeBatchEvent['data']): string =>
  JSON.stringify({ accountId, platform, operation, inputs })

/** A batch is taken on once, under the id that its request has, and is over once, with as many calls as it was. */
export const batchRules: ReadModel = {
  name: 'audit-batches',
  version: 1,
  tables: [batchesTable],
  takes: { types: new Set(['ScrapeBatchAccepted', 'ScrapeBatchFinished']) },
  reads: (event) => (isBatch(event) ? [{ table: batchesTable.name, key: [event.data.batchId] }] : []),
  apply: (event, rows) => {
    if (!isBatch(event)) return
    const { batchId } = event.data
    const row = rows.get(batchesTable, [batchId])
    const facts = factsOf(event.data)
    const say = (problem: string): void => violate(rows, event, 'scrape-batch', problem)
    const put = (finished: boolean): void =>
      rows.put(batchesTable, { batch_id: batchId, facts, finished, last_position: event.position })
    if (event.type === 'ScrapeBatchAccepted') {
      const { accountId, requestId } = event.data
      if (row !== undefined) say(`batch ${batchId} was taken on before`)
      else if (scrapeBatchIdOf(accountId, requestId) !== batchId)
        say(`the batch of request ${requestId} is ${scrapeBatchIdOf(accountId, requestId)}`)
      else if (event.stream !== scrapeBatchStream(batchId)) say(`it is about batch ${batchId}`)
      put(false)
      return
    }
    const { inputs, found, empty, notFound, restricted, failed } = event.data
    const calls = found + empty + notFound + restricted + failed
    if (row === undefined) say(`batch ${batchId} was never taken on`)
    else if (row.finished) say(`batch ${batchId} was over before`)
    else if (row.facts !== facts) say(`it is ${facts}, and ${row.facts} was taken on`)
    else if (calls !== inputs) say(`it has ${inputs} calls, and ${calls} of them came to something`)
    put(true)
  },
}

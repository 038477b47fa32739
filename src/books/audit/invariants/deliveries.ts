import type { ReadModel, Table } from '../../../../projections/engine/read-model.ts'
import type { DeliveryEvent } from '../../../outbound/webhooks/events.ts'
import type { RecordedEvent } from '../../../platform/eventstore/event.ts'
import { violate } from './violation.ts'

/** A delivery that has not come to its end. */
type DeliveryRow = { stream: string; delivery_id: string; last_position: number }

export const deliveriesTable: Table<DeliveryRow> = {
  name: 'audit_deliveries',
  columns: { stream: { type: 'text' }, delivery_id: { type: 'text' }, last_position: { type: 'bigint' } },
  key: ['stream'],
  indexes: [],
}

const deliveryPrefix = 'delivery-'
const isDelivery = (event: RecordedEvent): event is RecordedEvent<DeliveryEvent> =>
  event.stream.startsWith(deliveryPrefix)

/** A delivery that is under way ends once: what comes out of it is of one that was asked for, and is asked for again after that. */
export const deliveryRules: ReadModel = {
  name: 'audit-deliveries',
  version: 1,
  tables: [deliveriesTable],
  takes: { types: new Set(), streams: new Set([deliveryPrefix]) },
  reads: (event) => (isDelivery(event) ? [{ table: deliveriesTable.name, key: [event.stream] }] : []),
  apply: (event, rows) => {
    if (!isDelivery(event)) return
    const { stream, position, type } = event
    const { deliveryId } = event.data
    const row = rows.get(deliveriesTable, [stream])
    const say = (problem: string): void => violate(rows, event, 'delivery', problem)
    if (type === 'WebhookEnqueued' || type === 'WebhookRequeued') {
      if (row !== undefined) say('it is under way already')
      rows.put(deliveriesTable, { stream, delivery_id: deliveryId, last_position: position })
      return
    }
    if (row === undefined) say('nothing is under way here that could end so')
    else if (row.delivery_id !== deliveryId) say(`it is ${row.delivery_id} that is under way here`)
    rows.remove(deliveriesTable, [stream])
  },
}

import type { PlanId } from '../../kernel/ids.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { planStream } from '../../terms/streams.ts'
import type { TrafficMetered } from './events.ts'

/** What the log says now was used of a plan, bytes: it reads the whole stream. */
export const planUsedBytes = async (log: Pick<EventLog, 'readStream'>, planId: PlanId): Promise<number> => {
  let usedBytes = 0
  for await (const { type, data } of log.readStream(planStream(planId)))
    if (type === 'TrafficMetered') usedBytes = (JSON.parse(data) as TrafficMetered['data']).usedBytes
  return usedBytes
}

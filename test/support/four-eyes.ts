import { newEventId } from '../../src/kernel/ids.ts'
import { approvalLimitsStream } from '../../src/kernel/streams.ts'
import type { EventLog } from '../../src/platform/eventstore/port.ts'

/**
 * Sets the amount that one operator may move alone, as of a minute ago: a limit set now applies in a minute.
 */
export const limitAlone = async (log: EventLog, limitCents: number): Promise<void> => {
  const atMs = Date.now() - 120_000
  const from = new Date(atMs + 60_000).toISOString()
  await log.append(approvalLimitsStream, 'noStream', [
    {
      id: newEventId(),
      type: 'FourEyesSet',
      data: JSON.stringify({ limitCents, from, proposalId: null }),
      metadata: JSON.stringify({
        correlationId: 'test',
        causationId: null,
        actor: { kind: 'operator', name: 'alice' },
        recordedAt: new Date(atMs).toISOString(),
      }),
    },
  ])
}

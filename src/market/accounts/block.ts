import type { AccountId } from '../../kernel/ids.ts'
import { decode } from '../../platform/eventstore/codec.ts'
import { actorText, type RecordedEvent } from '../../platform/eventstore/event.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { accountStream } from '../../terms/streams.ts'
import type { AccountEvent } from './events.ts'

/** Why an account may only read: what was said when it was blocked, when (ISO 8601 UTC), and by whom. */
export type Block = { readonly reason: string; readonly at: string; readonly by: string }

/** The block that is in force, or null for an account that is not blocked. */
export const blockOf = async (
  log: Pick<EventLog, 'readStream'>,
  accountId: AccountId,
): Promise<Block | null> => {
  let block: Block | null = null
  for await (const stored of log.readStream(accountStream(accountId))) {
    const event = decode(stored) as RecordedEvent<AccountEvent>
    if (event.type === 'AccountUnblocked') block = null
    if (event.type === 'AccountBlocked') {
      const { actor, recordedAt } = event.metadata
      block = { reason: event.data.reason, at: recordedAt, by: actorText(actor) }
    }
  }
  return block
}

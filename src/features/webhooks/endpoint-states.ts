import { type EndpointsState, endpointsFold } from '../../domain/webhooks/fold.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { webhooksStream } from '../../kernel/streams.ts'
import { createLogStates, type LogStates } from '../../platform/commands/log-states.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'

/** Accounts whose state is cached. */
const maxCachedStates = 5_000

/**
 * The endpoints of accounts, folded from the log. The ids of an endpoint's URL and secrets are read here, because SQL
 * can change `read.webhook_endpoints`.
 */
export const createEndpointStates = (log: Pick<EventLog, 'readStreams'>): LogStates<EndpointsState> =>
  createLogStates(
    log,
    (account) => ({ stream: webhooksStream(account as AccountId), fold: endpointsFold }),
    maxCachedStates,
  )

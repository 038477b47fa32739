import type { WebhookCancellation } from '../../../../projections/webhook-queue.ts'
import { isoTime } from '../../../kernel/clock.ts'
import { deriveId, type NoticeId } from '../../../kernel/ids.ts'
import { noticeStream } from '../../../terms/streams.ts'
import { decidePublication } from '../../notices/decide.ts'
import { retentionMs } from '../retention.ts'
import type { WriteFact } from './write-facts.ts'

const hourMs = 60 * 60 * 1000

const bodyOf = (endpointId: string, failingSince: string, disabledAt: string): string => {
  // The event whose first attempt failed happened a little before that attempt.
  const since = isoTime(Date.parse(failingSince) - hourMs)
  return [
    `The webhook endpoint ${endpointId} was disabled at ${disabledAt}: every attempt to deliver to it since ${failingSince} failed.`,
    'Nothing is sent to it any more, and what waited was canceled.',
    `Mend the receiver, then enable the endpoint: PATCH /api/v1/webhooks/${endpointId} with {"status":"active"}.`,
    `After that, have what it missed sent again: POST /api/v1/webhooks/${endpointId}/redeliver?since=${since} (at most 30 days back).`,
  ].join('\n')
}

/**
 * The notice that tells an account of its endpoint which failed for days: one a disabling, named by the fact, so that a
 * reactor which starts over writes no second one. It drops out of the feed when nothing can be redelivered any more.
 * None for other causes, and none for a disabling of a release that did not record since when the endpoint failed.
 */
export const noticeOfDisabling = (
  { endpoint_id, account_id, failing_since, cause_id, correlation_id, caused_at }: WebhookCancellation,
  nowMs: number,
): readonly WriteFact[] => {
  if (failing_since === null) return []
  const disabledMs = Date.parse(caused_at)
  const noticeId = deriveId<NoticeId>('ntc', ['notice', 'endpoint-disabled', endpoint_id, cause_id])
  const draft = {
    noticeId,
    title: 'A webhook endpoint was disabled',
    body: bodyOf(endpoint_id, failing_since, caused_at),
    kind: 'ACTION_REQUIRED',
    audience: 'DEVELOPERS',
    accountId: account_id,
    expiresAt: isoTime(disabledMs + retentionMs),
    linkHref: null,
    linkLabel: null,
  } as const
  const decision = decidePublication(null, draft, disabledMs)
  if (decision.outcome === 'refused')
    throw new Error('the notice of a disabled endpoint breaks a rule', { cause: decision.refusal })
  return [
    {
      stream: noticeStream(noticeId),
      expected: 'noStream',
      facts: decision.events,
      correlationId: correlation_id,
      causationId: cause_id,
      atMs: Math.max(nowMs, disabledMs),
    },
  ]
}

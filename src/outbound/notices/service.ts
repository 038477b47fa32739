import type { NoticeId } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import { noticeStream } from '../../terms/streams.ts'
import { decideExpiration, decidePublication, type NoticeDecision, type NoticeDraft } from './decide.ts'
import { noticeFold } from './fold.ts'

/** Every notice is an event with its actor. Both reject as the command runner does. */
export type Notices = {
  /** Refusals: `invalid_notice`, `already_published`. */
  publish(draft: NoticeDraft, cause: Cause): Promise<NoticeDecision>
  /** Refusal: `not_found`. */
  expire(noticeId: NoticeId, cause: Cause): Promise<NoticeDecision>
}

export const createNotices = ({ runner }: { readonly runner: CommandRunner }): Notices => {
  const change = async (
    name: string,
    noticeId: NoticeId,
    { actor, correlationId }: Cause,
    decide: (state: Parameters<typeof decideExpiration>[0], nowMs: number) => NoticeDecision,
  ): Promise<NoticeDecision> => {
    const stream = noticeStream(noticeId)
    const { answer } = await runner.run({
      name,
      streams: { notice: { stream, fold: noticeFold } },
      decide: ({ notice }, { nowMs }) => {
        const decision = decide(notice, nowMs)
        const events = decision.outcome === 'decided' ? decision.events : []
        return { appends: events.length === 0 ? [] : [{ stream, events }], answer: decision }
      },
      actor,
      correlationId,
    })
    return answer
  }
  return {
    publish: (draft, cause) =>
      change('publish-notice', draft.noticeId as NoticeId, cause, (state, nowMs) =>
        decidePublication(state, draft, nowMs),
      ),
    expire: (noticeId, cause) => change('expire-notice', noticeId, cause, decideExpiration),
  }
}

import { LRUCache } from 'lru-cache'
import { growingTo } from '../../kernel/growing.ts'
import { heldPlanId } from '../../kernel/ids.ts'
import type {
  CommandDecision,
  CommandOutcome,
  CommandRunner,
} from '../../platform/eventstore/commands/command.ts'
import type { EventLog } from '../../platform/eventstore/port.ts'
import { orderStreams } from './arbiter.ts'
import { capCentsOf } from './payer.ts'
import { decidePlacement, type OrderDraft, type PlacementAnswer } from './place.ts'
import { actorOf, type OrderRequest, OrderTurnedAway } from './request.ts'

/**
 * `place` pays at once, `look` decides the same and writes nothing, `pay-awaited` pays an order that awaits its payment
 * by what is there.
 */
export type AttemptMode = 'place' | 'look' | 'pay-awaited'

/** Asks the log for an order, on the plan that is held where its product tops one up. */
export type Attempt = (
  request: OrderRequest,
  draft: OrderDraft,
  mode?: AttemptMode,
) => Promise<
  CommandOutcome<PlacementAnswer> & { /** As it was asked for: with its plan. */ readonly draft: OrderDraft }
>

/** The n-th held plan of a customer's top-up product: remembered per process, found again by asking. */
const maxHeldPlans = 100_000
const maxPlansAProduct = 1_000

export const createAttempt = (deps: { readonly log: EventLog; readonly runner: CommandRunner }): Attempt => {
  const { log, runner } = deps
  // An old key's order is found by the conflict on its stream. Without atomic items the debit, which the wallet forgets
  // after seven days, would have landed a second time by then.
  const orderAssumed = log.atomicItems === true ? ({ assume: 'absent' } as const) : {}
  const heldPlans = new LRUCache<string, number>(growingTo(maxHeldPlans))

  const ask = async (request: OrderRequest, draft: OrderDraft, mode: AttemptMode) => {
    const { accountId } = request.caller
    const streams = orderStreams(draft)
    const { beside } = request
    const placement = { draft, capCents: capCentsOf(request.caller), payAwaited: mode === 'pay-awaited' }
    const { answer, position } = await runner.run({
      name: `place-${draft.kind}`,
      streams: {
        ...streams,
        order: { ...streams.order, ...orderAssumed },
        ...(beside && { beside: { stream: beside.stream, fold: beside.fold } }),
      },
      decide: (states, { nowMs }): CommandDecision<PlacementAnswer | { readonly kind: 'turned_away' }> => {
        const decision = decidePlacement(states, placement, nowMs)
        if (mode === 'look') return { appends: [], answer: decision.answer }
        if (!beside || decision.answer.kind !== 'placed') return decision
        const events = beside.decide(states.beside, decision.answer.order)
        if (events === null) return { appends: [], answer: { kind: 'turned_away' } }
        return { ...decision, appends: [...decision.appends, { stream: beside.stream, events }] }
      },
      correlationId: request.requestId,
      actor: actorOf(request),
      account: accountId,
    })
    if (answer.kind === 'turned_away') throw new OrderTurnedAway(`${draft.orderId} was turned away`)
    return { answer, position, draft }
  }

  /** Asks on the held plan; when that has run out, on the next one. */
  const askOnHeldPlan = async (request: OrderRequest, draft: OrderDraft, mode: AttemptMode) => {
    const { accountId, customerId, productId } = draft
    const held = JSON.stringify([accountId, customerId, productId])
    for (let n = heldPlans.get(held) ?? 0; n < maxPlansAProduct; n += 1) {
      const onPlan = { ...draft, planId: heldPlanId(accountId, customerId, productId, n) }
      const outcome = await ask(request, onPlan, mode)
      const { answer } = outcome
      const over =
        answer.kind === 'refused' &&
        answer.refusal.code === 'refused_by_arbiter' &&
        answer.refusal.reason === 'plan_expired'
      if (over) continue
      heldPlans.set(held, n)
      return outcome
    }
    throw new Error(`${held} has had ${maxPlansAProduct} plans`)
  }

  return (request, draft, mode = 'place') =>
    draft.kind === 'order' && draft.renewal === 'topup'
      ? askOnHeldPlan(request, draft, mode)
      : ask(request, draft, mode)
}

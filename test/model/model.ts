import type { Event, Moment } from './model/actions.ts'
import type { Catalog } from './model/catalog.ts'
import { judgeDeed } from './model/deeds.ts'
import { judgeDeposit } from './model/deposits.ts'
import { judgeRequest } from './model/requests.ts'
import type { World } from './model/state.ts'

/**
 * A second implementation of Farebox from the specification: it knows the documentation and the published
 * catalogue, and nothing of the program. It checks answers: from the world before an event and its answer it
 * computes the world after it, or the error.
 */

const judge = (catalog: Catalog, moment: Moment, event: Event): string | null => {
  switch (event.kind) {
    case 'request':
      return judgeRequest(catalog, moment, event.request, event.answer)
    case 'deed':
      return judgeDeed(moment, event.deed, event.printed)
    case 'deposit':
      return judgeDeposit(moment, event.deposit, event.answer, event.read)
  }
}

const nameOf = (event: Event): string =>
  event.kind === 'deposit'
    ? `deposit ${JSON.stringify(event.deposit)} → ${event.answer.status} ${JSON.stringify(event.answer.body)}, ${JSON.stringify(event.read)}`
    : event.kind === 'request'
      ? `${event.request.account} for ${event.request.customer} ${event.request.path} ${JSON.stringify(event.request.body)} under ${event.request.idempotencyKey} → ${event.answer.status} ${JSON.stringify(event.answer.body)}`
      : `operator ${JSON.stringify(event.deed)} → ${JSON.stringify(event.printed)}`

export type Verdict =
  | { readonly ok: true; readonly world: World }
  | { readonly ok: false; readonly why: string }

/**
 * The world after simultaneous events: some order of them must be consistent, each on the world after the
 * earlier ones. The data that a request looked up may be as old as the batch.
 */
export const judgeTogether = (
  catalog: Catalog,
  world: World,
  events: readonly Event[],
  nowMs: number,
): Verdict => {
  let deepest = { depth: -1, why: '' }
  const search = (views: readonly World[], left: readonly Event[]): World | null => {
    const present = views.at(-1)!
    if (left.length === 0) return present
    const reasons: string[] = []
    for (const event of left) {
      const next = structuredClone(present)
      const wrong = judge(catalog, { world: next, views: [...views.slice(0, -1), next], nowMs }, event)
      if (wrong === null) {
        const after = search(
          [...views, next],
          left.filter((other) => other !== event),
        )
        if (after) return after
      } else reasons.push(`${nameOf(event)}: ${wrong}`)
    }
    const depth = events.length - left.length
    if (depth > deepest.depth) deepest = { depth, why: reasons.join('\n') }
    return null
  }
  const after = search([world], events)
  if (after) return { ok: true, world: after }
  return { ok: false, why: `after ${deepest.depth} of ${events.length} events none fits:\n${deepest.why}` }
}

export type { Answer, Deed, Deposit, Event, Printed, Request } from './model/actions.ts'
export { type Catalog, findProduct, isDedicated, linesOf, type Product } from './model/catalog.ts'
export { remainingBytes } from './model/deeds.ts'
export {
  type Account,
  bytesPerGb,
  type Customer,
  dayMs,
  type Order,
  type Plan,
  type Rental,
  type World,
} from './model/state.ts'

import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Refused } from '../../platform/eventstore/decision.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import type { PersonRefusal } from '../people/decide.ts'
import type { People } from '../people/service.ts'
import { type Links, printedLinkMs } from './links.ts'

/** Where a link leads: a page with a button, so that looking at it uses nothing up. */
export const linkUrl = (origin: string, link: string): string => `${origin}/console/sign-in/link?link=${link}`

/** A link that signs a person in, once, in whichever browser opens it. */
export type PrintedLink = {
  readonly outcome: 'done'
  readonly url: string
  /** ISO 8601 UTC. */
  readonly expiresAt: string
}

/** Makes a link for the operator to hand on, and says so in the log. Refusal: `no_role`, of staff without one. */
export const printLink = async (
  deps: {
    readonly people: Pick<People, 'linkMade'>
    readonly links: Pick<Links, 'printed'>
    readonly clock: Clock
    readonly origin: string
  },
  subjectId: string,
  cause: Cause,
): Promise<PrintedLink | Refused<PersonRefusal>> => {
  const expiresAtMs = deps.clock() + printedLinkMs
  const made = await deps.people.linkMade(subjectId, expiresAtMs, cause)
  if (made.outcome === 'refused') return made
  const link = await deps.links.printed(subjectId, expiresAtMs)
  return {
    outcome: 'done',
    url: linkUrl(deps.origin, link),
    expiresAt: isoTime(expiresAtMs),
  }
}

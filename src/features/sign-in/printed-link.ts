import type pg from 'pg'
import type { PersonRefusal } from '../../domain/staff/decide.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Refused } from '../../kernel/decider.ts'
import type { Cause } from '../../kernel/event.ts'
import type { People } from './people.ts'
import { type Links, printedLinkMs } from './sign-in-links.ts'

/** The console's address, as the server that listened last had it: a command hands out links to it. */
export const storeConsoleAddress = async (pool: pg.Pool, origin: string): Promise<void> => {
  await pool.query(
    `insert into work.console_address (origin) values ($1::text)
     on conflict (single) do update set origin = excluded.origin`,
    [origin],
  )
}

/** Null before a server ever listened. */
export const readConsoleAddress = async (pool: pg.Pool): Promise<string | null> => {
  const { rows } = await pool.query<{ origin: string }>('select origin from work.console_address')
  return rows[0]?.origin ?? null
}

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

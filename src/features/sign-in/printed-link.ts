import type pg from 'pg'
import type { PersonRefusal } from '../../domain/staff/decide.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Refused } from '../../kernel/decider.ts'
import type { Cause } from '../../kernel/event.ts'
import type { Keys } from '../../platform/vault/keys.ts'
import { createRowSigner } from '../../platform/vault/seal.ts'
import type { People } from './people.ts'
import { type Links, printedLinkMs } from './sign-in-links.ts'

type AddressDependencies = { readonly pool: pg.Pool; readonly keys: Pick<Keys, 'master'> }

type AddressRow = { readonly origin: string; readonly signature: Buffer | null }

/** Signs the console's address. Otherwise a changed address would send sign-in links to another server. */
export const createAddressSigner = (
  keys: Pick<Keys, 'master'>,
): { readonly sign: (origin: string) => Buffer; readonly isSigned: (row: AddressRow) => boolean } => {
  const signer = createRowSigner(keys.master, 'console address v1')
  return {
    sign: (origin) => signer.sign([origin]),
    isSigned: ({ origin, signature }) => signer.isSigned([origin], signature),
  }
}

/** Stores the console's address at the start of a server. Commands print links with it. */
export const storeConsoleAddress = async (
  { pool, keys }: AddressDependencies,
  origin: string,
): Promise<void> => {
  await pool.query(
    `insert into work.console_address (origin, signature) values ($1::text, $2::bytea)
     on conflict (single) do update set origin = excluded.origin, signature = excluded.signature`,
    [origin, createAddressSigner(keys).sign(origin)],
  )
}

/** Null if no server of this release has started yet, or if the signature of the stored address is invalid. */
export const readConsoleAddress = async ({ pool, keys }: AddressDependencies): Promise<string | null> => {
  const { rows } = await pool.query<AddressRow>('select origin, signature from work.console_address')
  const [row] = rows
  return row && createAddressSigner(keys).isSigned(row) ? row.origin : null
}

/** The URL of a link: a page with a button, so that opening the page does not use the link up. */
export const linkUrl = (origin: string, link: string): string => `${origin}/console/sign-in/link?link=${link}`

/** A single-use sign-in link that works in any browser. */
type PrintedLink = {
  readonly outcome: 'done'
  readonly url: string
  /** ISO 8601 UTC. */
  readonly expiresAt: string
}

/** Makes a link for the operator to pass on, and appends an event. Refusal: `no_role` for staff without a role. */
export const printLink = async (
  dependencies: {
    readonly people: Pick<People, 'linkMade'>
    readonly links: Pick<Links, 'printed'>
    readonly clock: Clock
    readonly origin: string
  },
  subjectId: string,
  cause: Cause,
): Promise<PrintedLink | Refused<PersonRefusal>> => {
  const expiresAtMs = dependencies.clock() + printedLinkMs
  const recorded = await dependencies.people.linkMade(subjectId, expiresAtMs, cause)
  if (recorded.outcome === 'refused') return recorded
  const link = await dependencies.links.printed(subjectId, expiresAtMs)
  return {
    outcome: 'done',
    url: linkUrl(dependencies.origin, link),
    expiresAt: isoTime(expiresAtMs),
  }
}

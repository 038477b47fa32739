import type { DomainEvent } from '../../platform/eventstore/event.ts'
import type { Family } from '../../terms/order-details.ts'
import type { System } from '../lines/targeting.ts'

/** How traffic goes out. Credentials stand in the vault. */
export type ExitVia =
  /** This machine; `localAddress` is one of its own, null: whichever the system takes. */
  | { readonly kind: 'direct'; readonly localAddress: string | null }
  /** An IPv6 prefix that is routed to this machine. */
  | { readonly kind: 'prefix'; readonly prefix: string }
  /** Somebody's proxy; names are resolved there. */
  | { readonly kind: 'http' | 'https' | 'socks5'; readonly host: string; readonly port: number }
  /** A supplier's gateway, whose username and password say where to go out. */
  | {
      readonly kind: 'template'
      readonly protocol: 'http' | 'https' | 'socks5'
      readonly host: string
      readonly port: number
    }

/** A place: `code` as usernames spell it, and its name. */
export type Place = { readonly code: string; readonly name: string }

/** What an exit can serve in one country. An exit of its own stands at one place of each kind at most; a template may at many. */
export type Cover = {
  /** Alpha-2, lower case. */
  readonly country: string
  readonly states: readonly Place[]
  readonly cities: readonly (Place & { readonly state: string | null })[]
  readonly isps: readonly (Place & { readonly asns: readonly number[] })[]
  readonly asns: readonly number[]
  readonly systems: readonly System[]
}

/** A way out as an operator's file says it. */
export type ExitTerms = {
  readonly exitId: string
  readonly via: ExitVia
  readonly family: Family
  /** One country; a template may have many. */
  readonly covers: readonly Cover[]
  /** Its share of the connections among those that match. */
  readonly weight: number
  /** Connections at once; null: any number. */
  readonly capacity: number | null
  readonly udp: boolean
  /** Of a mobile line, as in the catalogue; else null. */
  readonly carrier: string | null
  /** Names its credentials in the vault; null: it takes none. */
  readonly credentialId: string | null
}

/** `drained`: it gets no new sessions and no connections without one; a session that it has goes on to its end. */
export type ExitState = 'live' | 'drained' | 'removed'

/** The `exits` stream. New or changed exits; one that was removed is live again. */
export type ExitsImported = DomainEvent<'ExitsImported', { readonly exits: readonly ExitTerms[] }>
export type ExitsStateChanged = DomainEvent<
  'ExitsStateChanged',
  { readonly exitIds: readonly string[]; readonly state: ExitState }
>

export type ExitEvent = ExitsImported | ExitsStateChanged

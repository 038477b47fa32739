import { defineEvent, type EventOf } from '../../kernel/event.ts'
import {
  either,
  exactly,
  flag,
  group,
  integer,
  list,
  oneOf,
  orNull,
  type ShapeValue,
  text,
} from '../../kernel/event-fields.ts'
import { endpointProtocols } from '../shared/endpoint-fields.ts'
import { families } from '../shared/order-terms.ts'
import { systems } from './line.ts'

const host = text('a name or an address')
const port = integer('port', 'above 0', 'its port')

const via = either(
  [
    group(
      {
        kind: exactly('direct', 'this machine'),
        localAddress: orNull(text('a local address; null: chosen by the system')),
      },
      'This machine.',
    ),
    group(
      { kind: exactly('prefix', 'an IPv6 prefix'), prefix: text('routed to this machine') },
      'An IPv6 prefix that is routed to this machine.',
    ),
    group({ kind: oneOf(endpointProtocols, 'a proxy'), host, port }, 'A proxy, which resolves names itself.'),
    group(
      {
        kind: exactly('template', "a supplier's gateway"),
        protocol: oneOf(endpointProtocols, 'its protocol'),
        host,
        port,
      },
      "A supplier's gateway, whose username and password select the exit.",
    ),
  ],
  'the way to the target',
)
/** How an exit's traffic goes out. Credentials are in the vault. */
export type ExitVia = (typeof via)['_output']

const placeFields = { code: text('spelt as in usernames'), name: text('its name') }
/** `code` as in usernames, and the name of the location. */
export type Location = ShapeValue<typeof placeFields>

const asns = list(integer('AS number', '0 or more', 'a network'), 'networks')
const coverFields = {
  country: text('ISO 3166 alpha-2, lower case'),
  states: list(group(placeFields, 'a state'), 'states'),
  cities: list(group({ ...placeFields, state: orNull(text('its code; null: unknown')) }, 'a city'), 'cities'),
  isps: list(group({ ...placeFields, asns }, 'a provider'), 'providers of access'),
  asns,
  systems: list(oneOf(systems, 'a system'), 'operating systems'),
}
/**
 * The locations that an exit serves in one country. An exit that is not a template has at most one location of each
 * kind. A template may have many.
 */
export type Coverage = ShapeValue<typeof coverFields>

const exitFields = {
  exitId: text('its name in the file'),
  via,
  family: oneOf(families, 'the product families that it serves'),
  covers: list(group(coverFields, 'a country'), 'one country; a template may have many'),
  weight: integer('share', '0 or more', 'its share of connections among the matching exits'),
  capacity: orNull(integer('connections', '0 or more', 'simultaneous connections; null: unlimited')),
  udp: flag('whether it relays UDP'),
  carrier: orNull(text('of a mobile line, as in the catalogue; else null')),
  credentialId: orNull(text('names its credentials in the vault; null: none needed')),
}
/** An exit as in an operator's file. */
export type ExitTerms = ShapeValue<typeof exitFields>

/**
 * `drained`: it gets no new sessions and no connections without a session. Its existing sessions continue until they
 * end.
 */
const exitStates = ['live', 'drained', 'removed'] as const
export type ExitState = (typeof exitStates)[number]

/** The `exits` stream. */
const stream = 'exits'

export const exitsImported = defineEvent('ExitsImported', {
  stream,
  means: 'New or changed exits; a removed one is live again.',
  fields: { exits: list(group(exitFields, 'an exit'), 'the new or changed exits of the file') },
})
export type ExitsImported = EventOf<typeof exitsImported>

export const exitsStateChanged = defineEvent('ExitsStateChanged', {
  stream,
  means: 'The state of exits was changed.',
  fields: {
    exitIds: list(text('an exit'), 'which'),
    state: oneOf(
      exitStates,
      '`drained`: no new sessions and no connections without one; existing sessions continue to their end',
    ),
  },
})
export type ExitsStateChanged = EventOf<typeof exitsStateChanged>

export const exitEventDefinitions = [exitsImported, exitsStateChanged] as const
export type ExitEvent = EventOf<(typeof exitEventDefinitions)[number]>

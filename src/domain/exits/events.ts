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
const port = integer('port', 'above 0', 'where it listens')

const via = either(
  [
    group(
      {
        kind: exactly('direct', 'this machine'),
        localAddress: orNull(text('one of its own; null: whichever the system takes')),
      },
      'This machine.',
    ),
    group(
      { kind: exactly('prefix', 'an IPv6 prefix'), prefix: text('routed to this machine') },
      'An IPv6 prefix that is routed to this machine.',
    ),
    group(
      { kind: oneOf(endpointProtocols, "somebody's proxy"), host, port },
      "Somebody's proxy; names are resolved there.",
    ),
    group(
      {
        kind: exactly('template', "a supplier's gateway"),
        protocol: oneOf(endpointProtocols, 'how it is spoken to'),
        host,
        port,
      },
      "A supplier's gateway, whose username and password say where to go out.",
    ),
  ],
  'how traffic goes out',
)
/** How an exit's traffic goes out. Credentials are in the vault. */
export type ExitVia = (typeof via)['_output']

const placeFields = { code: text('as usernames spell it'), name: text('its name') }
/** `code` as in usernames, and the name of the location. */
export type Location = ShapeValue<typeof placeFields>

const asns = list(integer('AS number', '0 or more', 'a network'), 'networks')
const coverFields = {
  country: text('ISO 3166 alpha-2, lower case'),
  states: list(group(placeFields, 'a state'), 'states'),
  cities: list(
    group({ ...placeFields, state: orNull(text('its code; null: not known')) }, 'a city'),
    'cities',
  ),
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
  exitId: text('as the file names it'),
  via,
  family: oneOf(families, 'whose traffic it takes'),
  covers: list(group(coverFields, 'a country'), 'one country; a template may have many'),
  weight: integer('share', '0 or more', 'of the connections among those that match'),
  capacity: orNull(integer('connections', '0 or more', 'at once; null: any number')),
  udp: flag('whether it passes UDP on'),
  carrier: orNull(text('of a mobile line, as in the catalogue; else null')),
  credentialId: orNull(text('names its credentials in the vault; null: it takes none')),
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
  means: 'New or changed exits; one that was removed is live again.',
  fields: { exits: list(group(exitFields, 'an exit'), 'those of the file that are new or changed') },
})
export type ExitsImported = EventOf<typeof exitsImported>

export const exitsStateChanged = defineEvent('ExitsStateChanged', {
  stream,
  means: 'Exits take connections, no new ones, or none.',
  fields: {
    exitIds: list(text('an exit'), 'which'),
    state: oneOf(
      exitStates,
      '`drained`: no new sessions and no connections without one; a session that it has goes on to its end',
    ),
  },
})
export type ExitsStateChanged = EventOf<typeof exitsStateChanged>

export const exitEventDefinitions = [exitsImported, exitsStateChanged] as const
export type ExitEvent = EventOf<(typeof exitEventDefinitions)[number]>

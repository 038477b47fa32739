import { trimEnd } from '../../../kernel/formats.ts'

/** A node, or the DNS name for discovery. */
type Host = { readonly address: string; readonly port: number }

/** The parsed EVENTSTORE_URL. This module does not import the client, so that settings can be checked without it. */
export type Address = {
  readonly discover: boolean
  readonly credentials: { readonly username: string; readonly password: string } | null
  /** In the order of the address; at least one. */
  readonly hosts: readonly Host[]
  /** By parameter name of the client; values as in the address. */
  readonly parameters: ReadonlyMap<Parameter, string>
}

export const addressExpected =
  'an address such as esdb://user:password@a:2113,b:2113,c:2113 or esdb://localhost:2113?tls=false'

/** The address is invalid. The message never shows a password. */
export class AddressRefused extends Error {
  override readonly name = 'AddressRefused'
}

const integer = { expected: 'a whole number', test: (value: string) => /^-?\d{1,9}$/.test(value) }
const positive = { expected: 'a whole number above 0', test: (value: string) => /^[1-9]\d{0,8}$/.test(value) }
const interval = {
  expected: 'milliseconds, or -1 for none',
  test: (value: string) => /^(-1|\d{1,9})$/.test(value),
}
const boolean = { expected: 'true or false', test: (value: string) => value === 'true' || value === 'false' }
const path = { expected: 'a file', test: () => true }
const nodes = ['leader', 'follower', 'read_only_replica', 'random']

/** The parameters of the client. It would ignore any other name. */
const parameters = {
  tls: boolean,
  tlsCAFile: path,
  userCertFile: path,
  userKeyFile: path,
  // The client has no such parameter: `false` would have no effect.
  tlsVerifyCert: {
    expected: 'true (tlsCAFile names an authority of your own)',
    test: (value: string) => value === 'true',
  },
  // Without an exception a conflict would be a result with a wrong revision.
  throwOnAppendFailure: { expected: 'true', test: (value: string) => value === 'true' },
  connectionName: { expected: 'a name', test: () => true },
  nodePreference: {
    expected: nodes.join(', '),
    test: (value: string) => nodes.some((node) => flat(node) === flat(value)),
  },
  keepAliveInterval: interval,
  keepAliveTimeout: interval,
  defaultDeadline: positive,
  discoveryInterval: integer,
  gossipTimeout: positive,
  maxDiscoverAttempts: positive,
} as const

export type Parameter = keyof typeof parameters

/** Normalizes a name: upper and lower case are equal, `_` and `-` are ignored. */
const flat = (name: string): string => name.trim().toLowerCase().replaceAll(/[_-]/g, '')

const names = Object.keys(parameters) as Parameter[]

const decoded = (text: string, partName: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new AddressRefused(`${partName} holds a % that is not written %25`)
  }
}

const credentialsOf = (text: string): Address['credentials'] => {
  const [username = '', password, ...more] = text.split(':')
  if (username === '' || password === undefined || password === '')
    throw new AddressRefused('before the @ there must be user:password')
  // The client would cut the password at the second colon.
  if (more.length > 0) throw new AddressRefused('a : in the user or the password is written %3A')
  return { username: decoded(username, 'the user'), password: decoded(password, 'the password') }
}

const written = ({ address, port }: Host): string => `${address}:${port}`

const hostOf = (text: string, at: number): Host => {
  if (text.includes('['))
    throw new AddressRefused(`host ${at + 1} is an IPv6 address, which the client does not take: use a name`)
  const [, address, port = '2113'] = /^([A-Za-z0-9._-]+)(?::(.*))?$/.exec(text) ?? []
  if (address === undefined)
    throw new AddressRefused(`host ${at + 1} is missing, or is no name and no address`)
  // The message does not show the text after the colon: it is a password if the @ is missing.
  if (!/^\d{1,5}$/.test(port) || Number(port) < 1 || Number(port) > 65_535)
    throw new AddressRefused(`the port of host ${at + 1} (${address}) must be a number from 1 to 65535`)
  return { address, port: Number(port) }
}

const hostsOf = (text: string): readonly Host[] => {
  const hosts = text.split(',').map((host, at) => hostOf(host.trim(), at))
  const usedNames = new Set<string>()
  for (const host of hosts) {
    const name = written(host).toLowerCase()
    if (usedNames.has(name)) throw new AddressRefused(`${name} is named twice`)
    usedNames.add(name)
  }
  return hosts
}

const parametersOf = (query: string): ReadonlyMap<Parameter, string> => {
  const found = new Map<Parameter, string>()
  for (const pair of query.split('&')) {
    const [, key = '', given = ''] = /^([^=]*)(?:=(.*))?$/.exec(pair) ?? []
    const name = names.find((each) => flat(each) === flat(key))
    if (name === undefined)
      throw new AddressRefused(
        `there is no parameter ${JSON.stringify(key)}; the parameters are ${names.join(', ')}`,
      )
    if (found.has(name)) throw new AddressRefused(`${name} is given twice`)
    const value = given.trim()
    const { expected, test } = parameters[name]
    if (value === '' || !test(value)) throw new AddressRefused(`${name} must be ${expected}`)
    decoded(value, name)
    found.set(name, value)
  }
  return found
}

const pattern =
  /^(?:esdb|kurrentdb)(?<discover>\+discover)?:\/\/(?:(?<credentials>[^@/?]*)@)?(?<hosts>[^@/?]*)\/*(?:\?(?<query>[^@?]*))?$/

/**
 * Parses the address of an EventStoreDB server or cluster: `esdb://[user:password@]host[:port][,host[:port]…][?…]`, or
 * `esdb+discover://…`; `kurrentdb` is the newer name of the same scheme. It accepts the addresses of the client, except
 * for parts that the client would silently ignore or cut.
 *
 * @throws AddressRefused
 */
export const parseAddress = (url: string): Address => {
  const groups = pattern.exec(trimEnd(url.trim(), '/'))?.groups
  if (groups === undefined)
    throw new AddressRefused(
      'it must be esdb://, esdb+discover://, kurrentdb:// or kurrentdb+discover://, then [user:password@]host[:port][,host[:port]…][?name=value&…]; other @ / ? are written %40 %2F %3F',
    )
  const hosts = hostsOf(groups.hosts ?? '')
  const credentials = groups.credentials === undefined ? null : credentialsOf(groups.credentials)
  const given = groups.query === undefined ? new Map<Parameter, string>() : parametersOf(groups.query)
  if (given.get('tls') !== 'false' && credentials === null)
    throw new AddressRefused('it must name user:password, or say tls=false')
  if (given.has('userCertFile') !== given.has('userKeyFile'))
    throw new AddressRefused('userCertFile and userKeyFile are given together')
  return { discover: groups.discover !== undefined, credentials, hosts, parameters: given }
}

/** The address for logs and messages, without user, password and parameters. */
export const shownAddress = ({ discover, hosts }: Address): string =>
  `${discover ? 'esdb+discover' : 'esdb'}://${hosts.map(written).join(',')}`

/**
 * The connection string for the client. Several hosts are always written without `+discover`, as gossip seeds: with
 * `+discover` the client would use only the first host.
 */
export const connectionString = (
  { discover, credentials, hosts, parameters: given }: Address,
  defaults: { readonly [Name in Parameter]?: string },
): string => {
  const user = credentials
    ? `${encodeURIComponent(credentials.username)}:${encodeURIComponent(credentials.password)}@`
    : ''
  const scheme = discover && hosts.length === 1 ? 'esdb+discover' : 'esdb'
  const query = Object.entries({ ...defaults, ...Object.fromEntries(given) })
    .map(([name, value]) => `${name}=${value}`)
    .join('&')
  return `${scheme}://${user}${hosts.map(written).join(',')}${query === '' ? '' : `?${query}`}`
}

import { isIP } from 'node:net'
import { z } from 'zod'

/** Fields of an operator's file that describe an endpoint of a proxy: its host, port and credentials. */
export const endpointHost = z
  .string('a host name or an address')
  .refine(
    (text) => isIP(text) !== 0 || /^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/.test(text),
    'a host name or an address',
  )

export const endpointPort = z.int('a port from 1 to 65535').min(1).max(65_535)

export const endpointProtocols = ['http', 'https', 'socks5'] as const
export type EndpointProtocol = (typeof endpointProtocols)[number]

/** RFC 1929 allows 255 bytes for a username, and 255 bytes for a password. */
export const endpointSecret = z
  .string('a text of at most 255 bytes')
  .refine(
    (text) => /^[\u0020-\u007e]*$/.test(text) && text.length <= 255,
    'printable ASCII characters, at most 255',
  )

/** The value at a path of an entry, except secrets. */
export const shownAt = (value: unknown, path: readonly PropertyKey[]): unknown =>
  path.some((key) => key === 'username' || key === 'password')
    ? 'a value that is not shown'
    : path.reduce<unknown>((at, key) => (at as Record<PropertyKey, unknown> | null | undefined)?.[key], value)

/** The sandbox's own host. Over plain HTTP it returns the address that the request came from. */
export const whoamiHost = 'whoami.sandbox'

/**
 * The supplier of the demo's addresses that no machine has. It is a proxy of the sandbox, on another port with each
 * start.
 */
export const addressesHost = 'addresses.sandbox'

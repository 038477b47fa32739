import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { StartRefused } from '../platform/postgres/errors.ts'
import type { Config } from './config.ts'

/** Host names that listen everywhere are no place to connect to. */
const reachable = (host: string): string => {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return host.includes(':') ? `[${host}]` : host
}

/** Where this machine reaches a server that listens there, e.g. `http://127.0.0.1:3000`. */
export const urlOf = ({ host, port }: Pick<Config, 'host' | 'port'>): string =>
  `http://${reachable(host)}:${port}`

/** The refusal of a start that may not listen there; null where the error says nothing of the port. */
export const portRefusal = (
  { host, port }: Pick<Config, 'host' | 'port'>,
  setting: string,
  error: unknown,
): StartRefused | null => {
  const { code, message } = error as NodeJS.ErrnoException
  const cause = { cause: error }
  if (code === 'EADDRINUSE')
    return new StartRefused(
      `port ${port} of ${host} is taken by another program; set ${setting} to another one`,
      cause,
    )
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
    return new StartRefused(
      `this machine does not let port ${port} of ${host} be listened on (${message}); set ${setting === 'PORT' ? 'PORT or HOST' : setting}`,
      cause,
    )
  return null
}

/**
 * Listens where the settings say; `setting` names the port in a refusal. Resolves to the address, with the port that the system chose for port 0.
 * @throws StartRefused when the port is taken or may not be had
 */
export const listen = async (
  app: FastifyInstance,
  { host, port }: Pick<Config, 'host' | 'port'>,
  setting = 'PORT',
): Promise<string> => {
  try {
    await app.listen({ host, port })
  } catch (error) {
    throw portRefusal({ host, port }, setting, error) ?? error
  }
  return urlOf({ host, port: (app.server.address() as AddressInfo).port })
}

import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'
import type { CloseStack } from '../kernel/resource-scope.ts'
import { serveMetrics } from '../platform/http/gauges.ts'
import { StartRefused } from '../platform/postgres/errors.ts'
import type { Config } from './config.ts'

/** The host to connect to. A wildcard address such as 0.0.0.0 is replaced by loopback. */
const connectableHost = (host: string): string => {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return host.includes(':') ? `[${host}]` : host
}

/** The address of a server from this machine, such as `http://127.0.0.1:3000`. */
export const urlOf = ({ host, port }: Pick<Config, 'host' | 'port'>): string =>
  `http://${connectableHost(host)}:${port}`

/** The refusal of a start that cannot listen on a port; null if the error has another cause. */
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
 * Listens on the host and port of the settings. Resolves to the address, with the assigned port for port 0.
 * @param setting the name of the port's setting, for a refusal
 * @throws StartRefused when the port is in use or not permitted
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

/**
 * Serves the metrics of a worker process.
 * @param setting the name of the port's setting, for a refusal
 * @throws StartRefused when the port is in use or not permitted
 */
export const serveWorkerMetrics = async (
  closing: CloseStack,
  registry: Registry,
  port: number,
  setting: string,
): Promise<void> => {
  try {
    await serveMetrics(closing, registry, port)
  } catch (error) {
    throw portRefusal({ host: '127.0.0.1', port }, setting, error) ?? error
  }
}

import { once } from 'node:events'
import { createServer } from 'node:net'
import type { Config } from './config.ts'
import { portRefusal } from './listen.ts'
import { sandboxPort } from './open-sandbox.ts'

/** The address of a part of the program. */
type PortUse = { readonly setting: string; readonly hosts: readonly string[]; readonly port: number }

const defaultSandboxSetting = 'the sandbox (PORT + 1, since FAREBOX_SANDBOX_PORT is not set)'
const loopback = ['127.0.0.1']
const wildcardHosts = new Set(['0.0.0.0', '::'])

const sharesHost = (one: PortUse, other: PortUse): boolean =>
  [...one.hosts, ...other.hosts].some((host) => wildcardHosts.has(host)) ||
  one.hosts.some((host) => other.hosts.includes(host) || (host === 'localhost' && other.hosts === loopback))

const serverPorts = (config: Config): readonly PortUse[] => {
  const { sandbox } = config.payments
  const runsSandbox = sandbox !== null && sandbox.url === null
  const setting = sandbox?.port === null ? defaultSandboxSetting : 'FAREBOX_SANDBOX_PORT'
  return [
    { setting: 'PORT', hosts: [config.host], port: config.port },
    { setting: 'FAREBOX_METRICS_PORT', hosts: loopback, port: config.metricsPort ?? 0 },
    { setting, hosts: loopback, port: runsSandbox ? sandboxPort(config) : 0 },
  ]
}

const gatewayPorts = ({
  gateway: { listen, port, tls, metricsPort, workers },
}: Config): readonly PortUse[] => [
  { setting: 'FAREBOX_GATEWAY_PORT', hosts: listen, port },
  { setting: 'FAREBOX_GATEWAY_TLS_PORT', hosts: listen, port: tls?.port ?? 0 },
  ...(metricsPort === null ? [] : Array.from({ length: workers }, (_, offset) => metricsPort + offset)).map(
    (each) => ({
      setting: 'FAREBOX_GATEWAY_METRICS_PORT',
      hosts: loopback,
      port: each,
    }),
  ),
]

/** The parts that run in this start. */
type ActiveParts = { readonly server: boolean; readonly gateway: boolean; readonly freelist: boolean }

const freelistPorts = ({ freelist }: Config): readonly PortUse[] => [
  { setting: 'FAREBOX_FREELIST_METRICS_PORT', hosts: loopback, port: freelist.metricsPort ?? 0 },
]

const portUses = (config: Config, { server, gateway, freelist }: ActiveParts): readonly PortUse[] =>
  [
    ...(server ? serverPorts(config) : []),
    ...(gateway ? gatewayPorts(config) : []),
    ...(freelist ? freelistPorts(config) : []),
  ].filter(({ port }) => port !== 0)

/**
 * Listens on a port briefly. Resolves to the port, which the system assigns for port 0.
 * @throws the system's error when the port is in use or not permitted
 */
export const tryPort = async (host: string | undefined, port: number): Promise<number> => {
  const probe = createServer()
  probe.listen({ host, port })
  await once(probe, 'listening')
  const assignedPort = (probe.address() as { readonly port: number }).port
  probe.close()
  await once(probe, 'close')
  return assignedPort
}

/**
 * Checks the ports of the parts that run, before a start changes anything. It skips the gateway's first port (see
 * `gatewayPort`), and the sandbox's port if FAREBOX_SANDBOX_PORT is not set, because the sandbox then uses a free one.
 * @throws StartRefused when a port is in use
 */
export const checkPorts = async (config: Config, activeParts: ActiveParts): Promise<void> => {
  for (const { setting, hosts, port } of portUses(config, activeParts)) {
    if (setting === 'FAREBOX_GATEWAY_PORT' || setting === defaultSandboxSetting) continue
    for (const host of hosts)
      await tryPort(host, port).catch((error) => {
        throw portRefusal({ host, port }, setting, error) ?? error
      })
  }
}

/** The collision of two parts that would listen on the same port; null: none. Port 0 never collides. */
export const portCollision = (config: Config, activeParts: ActiveParts): string | null => {
  const usedPorts = portUses(config, activeParts)
  for (const [index, one] of usedPorts.entries()) {
    const other = usedPorts.slice(index + 1).find((each) => each.port === one.port && sharesHost(one, each))
    if (other)
      return `${one.setting} and ${other.setting} are both port ${one.port}: set one of them to another port`
  }
  return null
}

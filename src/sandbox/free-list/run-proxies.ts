import { createServer, type Server, type Socket } from 'node:net'
import { createExitDial } from '../exit-dial.ts'
import type { SandboxRecords } from '../sandbox-store.ts'
import { createBehaviour, type ServedProxy } from './behaviour.ts'
import type { PlannedProxy } from './plan.ts'

export type RunningProxy = { readonly planned: PlannedProxy; readonly port: number }

export type FreeProxies = {
  readonly running: readonly RunningProxy[]
  close(): Promise<void>
}

/** The ports of an earlier start, so that a stored endpoint remains the same proxy. */
type StoredPorts = { readonly ports: Readonly<Record<string, number>> }

const listen = (server: Server, host: string, port: number): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port }, () => {
      server.off('error', reject)
      resolve((server.address() as { readonly port: number }).port)
    })
  })

/** Listens on the former port, or on a free port if the former one is in use. */
const listenAgain = (server: Server, host: string, previousPort: number | undefined): Promise<number> =>
  previousPort === undefined
    ? listen(server, host, 0)
    : listen(server, host, previousPort).catch(() => listen(server, host, 0))

/**
 * Starts the planned proxies, each on its own address in 127.80.0.0/12 and its own port. The ports stay the same after
 * a restart. The proxies make real connections. For targets on this machine the source is their exit address. On Linux
 * every process can use these addresses. On other systems the promise rejects.
 */
export const startFreeProxies = async (options: {
  readonly planned: readonly PlannedProxy[]
  readonly records: SandboxRecords
  readonly clock: () => number
}): Promise<FreeProxies> => {
  const { planned, records, clock } = options
  const behaviour = createBehaviour({ clock, nowMs: clock() })
  const storedPorts = (await records.get<StoredPorts>('free proxies', 'ports'))?.ports ?? {}
  const sockets = new Set<Socket>()
  const servers: Server[] = []
  const close = async (): Promise<void> => {
    await Promise.all(
      servers
        .map(
          (server) =>
            new Promise<void>((resolve) => {
              server.close(() => resolve())
            }),
        )
        .concat([...sockets].map(async (socket) => void socket.destroy())),
    )
  }
  const start = async (plannedProxy: PlannedProxy): Promise<RunningProxy> => {
    const dial = createExitDial({ own: plannedProxy.exitIp, allowLoopback: true, whoami: null })
    const served: ServedProxy = { planned: plannedProxy, dial, remembered: null }
    const server = createServer({ noDelay: true }, (socket) => {
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket))
      behaviour.serve(served, socket)
    })
    const port = await listenAgain(server, plannedProxy.ip, storedPorts[plannedProxy.id])
    if (plannedProxy.fault === 'refused') await new Promise((resolve) => server.close(resolve))
    else servers.push(server)
    return { planned: plannedProxy, port }
  }
  try {
    const running = await Promise.all(planned.map(start))
    await records.change<StoredPorts>('free proxies', 'ports', () => ({
      ports: Object.fromEntries(running.map(({ planned: { id }, port }) => [id, port])),
    }))
    return { running, close }
  } catch (error) {
    await close()
    throw error
  }
}

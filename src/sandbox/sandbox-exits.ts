import { randomBytes, randomUUID } from 'node:crypto'
import { isIP } from 'node:net'
import type { FastifyInstance } from 'fastify'
import type pg from 'pg'
import { z } from 'zod'
import { startWhoami } from './exit-dial.ts'
import { type PlannedExit, plannedExits } from './exit-locations.ts'
import { type Authenticate, type ExitProxy, startExitProxy } from './exit-proxy.ts'
import { answer, type SandboxRecords } from './sandbox-store.ts'

/** The running exits of the sandbox. */
export type SandboxExits = {
  readonly running: ReadonlyMap<
    string,
    { readonly planned: PlannedExit; readonly own: string; readonly proxy: ExitProxy }
  >
  close(): Promise<void>
}

/** The source address of an exit for targets on this machine, by its index in the list. */
const ownAddress = (at: number): string => `127.64.${1 + (at >> 6)}.${1 + (at & 63)}`

/** The source address of the proxy that simulates the supplier of the demo's IPv6 addresses. */
const supplierAddress = '127.64.0.1'

/**
 * Starts all exits of the sandbox and stores their addresses for the gateway's processes. Each exit is a proxy on a
 * loopback port that makes real connections. Each start creates a new login.
 */
export const startSandboxExits = async (options: {
  readonly records: SandboxRecords
  readonly allowLoopback: boolean
}): Promise<SandboxExits> => {
  const { records, allowLoopback } = options
  const login = { username: 'sandbox', password: randomBytes(16).toString('hex') }
  const signsIn: Authenticate = (username, password) =>
    username === login.username && password === login.password ? { shows: null } : null
  const whoami = await startWhoami(
    new Map(plannedExits.map(({ terms }, at) => [ownAddress(at), terms] as const)),
  )
  const started = await Promise.all(
    plannedExits.map(async (planned, at) => {
      const own = ownAddress(at)
      return { planned, own, proxy: await startExitProxy({ own, signsIn, allowLoopback, whoami }) }
    }),
  )
  const supplier = await startExitProxy({
    own: supplierAddress,
    signsIn: (username, password) =>
      password === login.password && isIP(username) !== 0 ? { shows: username } : null,
    allowLoopback,
    whoami,
  })
  const close = async (): Promise<void> => {
    await Promise.all([supplier, ...started.map(({ proxy }) => proxy)].map((proxy) => proxy.kill()))
    await whoami.close()
  }
  const change = () => ({
    made: randomUUID(),
    exits: started.map(({ planned: { terms, kind }, proxy }) => ({
      terms: { ...terms, via: { kind, host: '127.0.0.1', port: proxy.port }, credentialId: null },
      login,
    })),
    whoamiPort: whoami.port,
    supplier: { port: supplier.port, password: login.password },
  })
  await records.change('exits', 'exits', change).catch(async (error) => {
    await close()
    throw error
  })
  return {
    running: new Map(started.map((runningExit) => [runningExit.planned.terms.exitId, runningExit])),
    close,
  }
}

/** Deletes the exits that an earlier start stored, for a service without a sandbox. */
export const deleteSandboxExits = async (pool: pg.Pool): Promise<void> => {
  await pool.query("delete from work.sandbox_records where kind = 'exits'")
}

const Change = z.strictObject({
  alive: z.boolean().optional(),
  slowMs: z.int().min(0).max(60_000).optional(),
})

/** `/_sandbox/exits`: lists the exits, and stops, restarts and slows them. */
export const exitControls = (app: FastifyInstance, { running }: SandboxExits): void => {
  const exitView = (id: string) => {
    const runningExit = running.get(id)
    if (!runningExit) return null
    const { planned, own, proxy } = runningExit
    const [cover] = planned.terms.covers
    return {
      id,
      kind: planned.kind,
      port: proxy.port,
      address: own,
      family: planned.terms.family,
      country: cover?.country,
      state: cover?.states[0]?.code,
      city: cover?.cities[0]?.code,
      isp: cover?.isps[0]?.code,
      asn: cover?.asns[0],
      os: cover?.systems[0],
      carrier: planned.terms.carrier,
      ...proxy.state(),
    }
  }
  app.get('/_sandbox/exits', async (_request, reply) =>
    answer(reply, 200, { exits: [...running.keys()].map(exitView) }),
  )
  app.put('/_sandbox/exits/:id', async (request, reply) => {
    const { id } = request.params as { id: string }
    const proxy = running.get(id)?.proxy
    if (!proxy) return answer(reply, 404, { error: 'no exit of the sandbox has this id' })
    const change = Change.safeParse(request.body)
    if (!change.success) return answer(reply, 400, { error: z.prettifyError(change.error) })
    const { alive, slowMs } = change.data
    if (slowMs !== undefined) proxy.slow(slowMs)
    if (alive === true) await proxy.revive()
    if (alive === false) await proxy.kill()
    return answer(reply, 200, exitView(id) ?? {})
  })
}

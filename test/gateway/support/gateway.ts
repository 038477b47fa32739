import type { TestContext } from 'node:test'
import { createGateway, type Gateway, type GatewayOptions } from '../../../src/gateway/gateway.ts'
import type { Exit } from '../../../src/gateway/gateway-ports.ts'
import { atEnd } from '../../support/cleanup.ts'
import { machineMs } from '../../support/machine-time.ts'
import {
  type Account,
  directExit,
  type MemoryAccess,
  type MemoryExits,
  memoryAccess,
  memoryExits,
  memorySpending,
} from './memory-ports.ts'

export type TestGateway = {
  readonly gateway: Gateway
  readonly port: number
  readonly spending: Account
  readonly access: MemoryAccess
  readonly exits: MemoryExits
  /** The refusals, `status error`. */
  readonly refusals: string[]
  /** Lines of the log. */
  readonly lines: string[]
}

export type TestOptions = Partial<Omit<GatewayOptions, 'access' | 'exits'>> & {
  readonly budget?: number
  readonly exit?: Exit
  readonly host?: string
}

/** A gateway on its own port, over ports in memory, whose exit may dial this machine's loopback. */
export const startGateway = async (
  t: TestContext,
  { budget, exit = directExit, host = '127.0.0.1', ...options }: TestOptions = {},
): Promise<TestGateway> => {
  const spending = memorySpending(budget)
  const access = memoryAccess(spending)
  const exits = memoryExits(exit)
  const refusals: string[] = []
  const lines: string[] = []
  const log = (line: object, text: string): void => void lines.push(`${text} ${JSON.stringify(line)}`)
  const nothing = (): void => undefined
  const gateway = createGateway({
    access,
    exits,
    // Time limits of a test are short: on a loaded machine they would pass before any work.
    clock: machineMs,
    logger: { debug: log, error: log },
    metrics: {
      connected: nothing,
      disconnected: nothing,
      opened: nothing,
      closed: nothing,
      dialled: nothing,
      countBytes: nothing,
      faulted: nothing,
      refused: (status, error) => void refusals.push(`${status} ${error}`),
    },
    ...options,
    limits: { sweepMs: 20, drainMs: 0, lingerMs: 500, ...options.limits },
  })
  const port = await gateway.listen({ host, port: 0 })
  atEnd(t, () => gateway.close())
  return { gateway, port, spending, access, exits, refusals, lines }
}

import type { Client } from './client.ts'
import type { Context } from './context.ts'
import type { Failure } from './failures.ts'
import type { Protocol } from './metrics.ts'
import type { Admission } from './ports.ts'
import { runTunnel } from './relay/tunnel.ts'
import type { Wire } from './wire.ts'

/** Runs a tunnel for a client to its end. @param done is told the error word, null: none */
export const tunnelOf = (
  { limits, metrics, cuts }: Context,
  client: Client,
  upstream: Wire,
  { spending }: Admission,
  protocol: Protocol,
  done: (error: Failure | null) => void,
): void => {
  metrics.opened(protocol)
  const parts = {
    client: client.wire,
    upstream,
    spending,
    watch: client.watch,
    cuts,
    idleMs: limits.idleMs,
    lingerMs: limits.lingerMs,
    passed: metrics.passed,
    done: (error: Failure | null) => {
      metrics.closed(protocol)
      done(error)
    },
  }
  try {
    runTunnel(parts)
  } catch (error) {
    upstream.socket.destroy()
    throw error
  }
}

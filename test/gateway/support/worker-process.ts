import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { atEnd } from '../../support/cleanup.ts'
import { surroundings } from '../../support/farebox.ts'
import { ownPort } from '../../support/own-port.ts'
import type { TestApp } from '../../support/test-app.ts'

export type WorkerProcess = {
  readonly pid: number
  readonly port: number
  /** As its leases name it. */
  readonly worker: string
  /** SIGKILL, and waits for the end. */
  kill(): Promise<unknown>
  /** SIGTERM, and waits for the end. @returns the exit code */
  stop(): Promise<number | null>
}

const entry = join(import.meta.dirname, '../../../src/gateway-worker.ts')

/**
 * A gateway worker in a separate process, as the supervisor starts it, on its own port; ended with the test.
 */
export const startWorkerProcess = async (
  t: TestContext,
  app: Pick<TestApp, 'env'>,
  settings: Readonly<Record<string, string>> = {},
): Promise<WorkerProcess> => {
  const port = await ownPort()
  const env = {
    ...surroundings(),
    LOG_LEVEL: 'fatal',
    FAREBOX_SHUTDOWN_TIMEOUT_MS: '100',
    FAREBOX_GATEWAY_WORKERS: '1',
    ...app.env,
    FAREBOX_GATEWAY_PORT: String(port),
    ...settings,
  }
  const child: ChildProcess = fork(entry, ['0'], {
    env,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const gone = once(child, 'exit')
  const end = (signal: NodeJS.Signals) => async () => {
    child.kill(signal)
    const [code] = (await gone) as [number | null]
    return code
  }
  atEnd(t, end('SIGKILL'))
  const ready = once(child, 'message').then(([message]) => message as { readonly worker: string })
  const first = await Promise.race([ready, gone.then(() => null)])
  if (first === null) throw new Error('the gateway worker ended at its start')
  return { pid: child.pid!, port, worker: first.worker, kill: end('SIGKILL'), stop: end('SIGTERM') }
}

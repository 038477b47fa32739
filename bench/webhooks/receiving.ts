import { type ChildProcess, execFile, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Counted, Question } from './receiver.ts'

export type Receiving = {
  readonly port: number
  /** The receiver's own certificate (PEM): whom a sender must trust. */
  readonly certFile: string
  count(): Promise<Counted>
  /** Restarts counting. The first `warmUp` deliveries (default 0) are not timed. */
  forget(warmUp?: number): Promise<Counted>
  stop(): Promise<void>
}

/** P-256, for the loopback address, two days: `openssl` makes it, since Node cannot sign certificates. */
const makeCertificate = (keyFile: string, certFile: string): Promise<unknown> =>
  promisify(execFile)('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
    ...['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'],
    ...['-keyout', keyFile, '-out', certFile],
  ])

const ask = async (receiver: ChildProcess, question: Question): Promise<Counted> => {
  const answer = once(receiver, 'message')
  receiver.send(question)
  return ((await answer) as [Counted])[0]
}

/** Starts the fast receiver over TLS, in a process of its own. */
export const startReceiving = async (): Promise<Receiving> => {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-tls-'))
  const [keyFile, certFile] = [join(directory, 'key.pem'), join(directory, 'cert.pem')]
  await makeCertificate(keyFile, certFile)
  const receiver = fork(new URL('receiver.ts', import.meta.url), [keyFile, certFile])
  const [{ port }] = (await once(receiver, 'message')) as [Counted]
  return {
    port,
    certFile,
    count: () => ask(receiver, 'count'),
    forget: (warmUp = 0) => ask(receiver, { forget: { warmUp } }),
    stop: async () => {
      receiver.disconnect()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

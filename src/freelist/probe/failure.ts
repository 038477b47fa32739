import type { CheckError } from '../record/endpoint.ts'

/** One protocol did not pass, through the proxy's doing. */
export class ProbeFailure extends Error {
  override readonly name = 'ProbeFailure'
  readonly error: CheckError
  /** @param detail a sentence of ours: nothing that the proxy wrote */
  constructor(error: CheckError, detail: string) {
    super(detail)
    this.error = error
  }
}

/** Faults of this side: no socket to be had, or the system forbids it. */
const ownFaults: ReadonlySet<string> = new Set([
  'EMFILE',
  'ENFILE',
  'ENOBUFS',
  'ENOMEM',
  'EADDRNOTAVAIL',
  'EACCES',
  'EPERM',
  'EINVAL',
])

export const isOwnFault = (error: NodeJS.ErrnoException): boolean => ownFaults.has(error.code ?? '')

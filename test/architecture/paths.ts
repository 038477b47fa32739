import { Session } from 'node:inspector/promises'
import { relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = resolve(import.meta.dirname, '../..')

/**
 * Work that runs beside a request and not for it, and layers that every file uses. A path is counted without them.
 */
const notCounted = [
  'src/kernel/',
  // The clock and its guards, which are compared with Postgres and the log meanwhile.
  'src/app/clock.ts',
  'src/features/finance/period-service.ts',
  // The projection engine and the live copies of read tables, queues and the scheduler of workers.
  'src/app/projections.ts',
  'src/platform/projections/',
  'src/platform/work/',
  // The time that commands leave to background work, snapshots and seals.
  'src/platform/commands/background-scheduler.ts',
  'src/platform/commands/snapshots.ts',
  'src/audit/seals/sealer.ts',
  'src/audit/seals/sealing.ts',
  'src/audit/signatures/check-signatures.ts',
  'src/audit/signatures/unsealed-check.ts',
  // Metrics and logs, and the counted uses of keys.
  'src/features/accounts/key-uses.ts',
  'src/app/metrics.ts',
  'src/platform/http/gauges.ts',
  'src/platform/http/logging.ts',
  // Stand-ins for third parties.
  'src/sandbox/',
]

/**
 * The files of `src` that run code while `work` runs, sorted, each with the functions that V8 counted a call of. The code
 * that a file runs as it is loaded does not count. Run the work once before, so that caches are filled.
 * @param without more path prefixes that are not counted
 */
export const filesOnPath = async (
  work: () => Promise<unknown>,
  without: readonly string[] = [],
  /** Runs before the measurement, so that caches are filled however long the start of the coverage takes. */
  warmUp: () => Promise<unknown> = async () => undefined,
): Promise<readonly string[]> => {
  const excluded = [...notCounted, ...without]
  const session = new Session()
  session.connect()
  try {
    await session.post('Profiler.enable')
    await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
    await warmUp()
    await session.post('Profiler.takePreciseCoverage')
    await work()
    const { result } = await session.post('Profiler.takePreciseCoverage')
    return result
      .filter(({ url }) => url.startsWith('file:'))
      .map(({ url, functions }) => ({
        file: relative(root, fileURLToPath(url)),
        called: functions.filter(isCalled).map(({ functionName }) => functionName),
      }))
      .filter(({ file, called }) => file.startsWith('src/') && called.length > 0)
      .filter(({ file }) => !excluded.some((prefix) => file.startsWith(prefix)))
      .map(({ file, called }) => `${file}: ${called.filter(Boolean).join(', ')}`)
      .sort()
  } finally {
    session.disconnect()
  }
}

type FunctionCoverage = {
  readonly functionName: string
  readonly ranges: readonly { readonly startOffset: number; readonly count: number }[]
}

/** The function that begins with the file is the file itself. */
const isCalled = ({ functionName, ranges: [range] }: FunctionCoverage): boolean =>
  range !== undefined && range.count > 0 && !(functionName === '' && range.startOffset === 0)

import type { CliContext } from '../platform/cli/cli-context.ts'
import { table } from '../platform/cli/output.ts'
import { triggerText, type Worker } from '../platform/work/worker.ts'
import { readWorkerRuns, type WorkerRuns } from '../platform/work/worker-runs.ts'

const durationMs = ({ startedAt, finishedAt }: WorkerRuns): number | null =>
  startedAt === null || finishedAt === null ? null : Date.parse(finishedAt) - Date.parse(startedAt)

type WorkerWithRuns = { readonly worker: Worker; readonly runs: WorkerRuns | null }

const jsonOf = ({ worker, runs }: WorkerWithRuns) => {
  const { name, about, trigger, per, process } = worker
  return {
    name,
    about,
    trigger: triggerText(worker),
    everyMs: 'everyMs' in trigger ? trigger.everyMs : null,
    process,
    per,
    processes: runs?.processes ?? 0,
    lastRun: runs && {
      startedAt: runs.startedAt,
      finishedAt: runs.finishedAt,
      tookMs: durationMs(runs),
      succeeded: runs.failures === 0,
      failuresInARow: runs.failures,
      host: runs.host,
      pid: runs.pid,
    },
    lastError: runs?.lastError ?? null,
  }
}

const stateText = (runs: WorkerRuns | null): string => {
  if (runs === null) return '-'
  if (runs.failures > 0) return `failed ${runs.failures}x`
  return runs.finishedAt === null ? 'running' : 'ok'
}

const textOf = (workersWithRuns: readonly WorkerWithRuns[]): string =>
  table(workersWithRuns, [
    { title: 'name', value: ({ worker }) => worker.name },
    { title: 'what it does', value: ({ worker }) => worker.about },
    { title: 'runs', value: ({ worker }) => triggerText(worker) },
    { title: 'once per', value: ({ worker: { per, process } }) => (per === 'cluster' ? per : process) },
    { title: 'processes', value: ({ runs }) => runs?.processes ?? 0, align: 'right' },
    { title: 'last run', value: ({ runs }) => (runs === null ? 'never' : (runs.startedAt ?? 'never')) },
    {
      title: 'took',
      value: ({ runs }) => {
        const ms = runs && durationMs(runs)
        return ms === null ? '-' : `${ms} ms`
      },
      align: 'right',
    },
    { title: 'state', value: ({ runs }) => stateText(runs) },
    {
      title: 'last error',
      value: ({ runs }) => (runs?.lastError ? `${runs.lastError.at} ${runs.lastError.message}` : '-'),
    },
  ])

export const listWorkers = async ({ pool }: CliContext) => {
  // Loaded here, because the list imports the modules of all workers, which no other command needs.
  const { allWorkers } = await import('./worker-list.ts')
  const runs = await readWorkerRuns(pool)
  const workersWithRuns = allWorkers.map((worker) => ({ worker, runs: runs.get(worker.name) ?? null }))
  return { json: { workers: workersWithRuns.map(jsonOf) }, text: textOf(workersWithRuns) }
}

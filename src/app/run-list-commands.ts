import { eventDefinitions } from '../domain/events.ts'
import type { BareContext, CliContext } from '../platform/cli/cli-context.ts'
import { acceptedScopes } from '../platform/http/rate-limit.ts'
import { triggerText, type Worker } from '../platform/work/worker.ts'
import { readWorkerRuns, type WorkerRuns } from '../platform/work/worker-runs.ts'
import type { Config } from './config.ts'
import type { ListedRoute } from './list-routes.ts'

/** Who may call a route, in the words of docs/reference/api.md. */
const accessText = (route: ListedRoute): string => {
  if (route.access === 'public') return 'everybody'
  if (route.access === 'finance') return 'finance token'
  const accepted = acceptedScopes(route)
  return accepted === null ? 'any key' : `scope ${accepted.join(' or ')}`
}

export const routes = async (
  { readSettings, clock }: BareContext<Config>,
  { api = false }: { readonly api?: boolean },
) => {
  const { listRoutes } = await import('./list-routes.ts')
  const routes = (await listRoutes(await readSettings(), clock)).filter(
    ({ operation }) => !api || operation !== null,
  )
  return {
    json: { routes, total: routes.length },
    rows: routes.map((route) => ({ ...route, accessText: accessText(route) })),
  }
}

export const events = async () => {
  const events = eventDefinitions.map(({ type, stream, means }) => ({ type, stream, means }))
  return { json: { events, total: events.length }, rows: events }
}

const durationMs = ({ startedAt, finishedAt }: WorkerRuns): number | null =>
  startedAt === null || finishedAt === null ? null : Date.parse(finishedAt) - Date.parse(startedAt)

const jsonOf = (worker: Worker, runs: WorkerRuns | null) => {
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

export const listWorkers = async ({ pool, clock }: CliContext) => {
  // Loaded here, because the list imports the modules of all workers, which no other command needs.
  const { allWorkers } = await import('./worker-list.ts')
  const runsByName = await readWorkerRuns(pool, clock())
  const rows = allWorkers.map((worker) => {
    const runs = runsByName.get(worker.name) ?? null
    const json = jsonOf(worker, runs)
    return {
      json,
      ...json,
      state: stateText(runs),
      oncePer: worker.per === 'cluster' ? 'cluster' : worker.process,
    }
  })
  return { json: { workers: rows.map(({ json }) => json) }, rows }
}

import { followers } from '../../projections/groups.ts'
import { createCheckedEvents } from '../audit/checked-events.ts'
import { positionToken } from '../kernel/log-position.ts'
import type { CliContext } from '../platform/cli/cli-context.ts'
import { CliRefusal, fields, notFound } from '../platform/cli/output.ts'
import { type ProgressStep, withProgress } from '../platform/cli/progress-bar.ts'
import { createCodec } from '../platform/eventstore/codec.ts'
import { ProjectionsRefused } from '../platform/projections/checkpoint.ts'
import { differenceText } from '../platform/projections/compare-tables.ts'
import {
  type RebuildProgress,
  type RebuildResult,
  RebuildRunning,
  rebuild,
  UnknownReadModel,
} from '../platform/projections/rebuild.ts'

const stepOf = (step: RebuildProgress): ProgressStep => ({
  label: `${step.group}: ${step.phase.padEnd(8)}`,
  done: step.position,
  total: step.target,
  count: step.events,
  unit: 'events',
  perSecond: step.eventsPerSecond,
  secondsLeft: step.phase === 'fold' ? step.secondsLeft : null,
})

const resultText = (result: RebuildResult): string =>
  [
    fields({
      group: result.group,
      models: result.models.join(', '),
      events: result.events,
      position: positionToken(result.position),
      seconds: result.durationMs / 1000,
      compared: result.compared.join(', ') || null,
      replaced: result.exchanged,
    }),
    ...result.differences.map((difference) => `DIFFERENT ${differenceText(difference)}`),
  ].join('\n')

const refusalOf = (error: unknown): CliRefusal | null => {
  if (error instanceof UnknownReadModel) return notFound(error.message)
  if (error instanceof RebuildRunning) return new CliRefusal('rebuild_running', error.message)
  if (error instanceof ProjectionsRefused) return new CliRefusal('projections_refused', error.message)
  return null
}

export const rebuildModels = async (
  { pool, auditorPool, log, keys }: CliContext,
  {
    name: modelNames,
    check: compareOnly = false,
  }: { readonly name: readonly string[]; readonly check?: boolean },
) => {
  const { invariantGroup } = await import('../audit/invariants/invariants.ts')
  const results = await withProgress((bar) =>
    rebuild(
      {
        pool,
        auditorPool,
        log,
        decode: createCodec().decode,
        groups: [...followers, invariantGroup],
        watch: createCheckedEvents({ pool: auditorPool, log, master: keys.master }),
      },
      modelNames.includes('all') ? 'all' : modelNames,
      { onProgress: (step) => bar.show(stepOf(step)), compareOnly },
    ),
  ).catch((error) => {
    throw refusalOf(error) ?? error
  })
  const shown = results.map((result) => ({ ...result, position: positionToken(result.position) }))
  const differences = results.flatMap((result) => result.differences)
  if (compareOnly && differences.length > 0)
    throw new CliRefusal('read_models_differ', differences.map(differenceText).join('; '), { results: shown })
  return { json: { results: shown }, text: results.map(resultText).join('\n\n') }
}

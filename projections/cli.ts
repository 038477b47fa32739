import type { Command } from 'commander'
import type { Cli } from '../src/cli/cli.ts'
import { CliRefusal, fields } from '../src/cli/output.ts'
import { createCodec } from '../src/eventstore/codec.ts'
import { ProjectionsRefused } from './engine/checkpoint.ts'
import type { Difference } from './engine/compare.ts'
import {
  type RebuildProgress,
  type RebuildResult,
  RebuildRunning,
  rebuild,
  UnknownReadModel,
} from './engine/rebuild.ts'
import { groups } from './groups.ts'

const barWidth = 24

const duration = (seconds: number): string =>
  seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`

/** One line such as `hot: fold  ████████░░░░  412,000 events, 31,200/s, 18 s left`. */
export const progressLine = (step: RebuildProgress): string => {
  const share = step.target === 0 ? 1 : Math.min(1, step.position / step.target)
  const full = Math.round(share * barWidth)
  const bar = '█'.repeat(full) + '░'.repeat(barWidth - full)
  const figures = [
    `${step.events.toLocaleString('en-US')} events`,
    `${step.eventsPerSecond.toLocaleString('en-US')}/s`,
  ]
  if (step.phase === 'fold' && step.secondsLeft !== null) figures.push(`${duration(step.secondsLeft)} left`)
  return `${step.group}: ${step.phase.padEnd(8)}  ${bar}  ${figures.join(', ')}`
}

/** A line that is drawn over itself on a terminal, and written now and then elsewhere. */
const progressBar = (stream: NodeJS.WriteStream) => {
  let writtenMs = Number.NEGATIVE_INFINITY
  let phase = ''
  const everyMs = stream.isTTY ? 100 : 5000
  return {
    show: (step: RebuildProgress): void => {
      const nowMs = performance.now()
      if (step.phase === phase && nowMs - writtenMs < everyMs) return
      writtenMs = nowMs
      phase = step.phase
      stream.write(stream.isTTY ? `\r\x1b[K${progressLine(step)}` : `${progressLine(step)}\n`)
    },
    end: (): void => {
      if (stream.isTTY && phase !== '') stream.write('\n')
    },
  }
}

const differenceText = ({ table, key, column, live, rebuilt }: Difference): string => {
  const row = `${table} ${JSON.stringify(key)}`
  if (column === null)
    return live === null ? `${row}: the row was missing` : `${row}: the row should not have been there`
  return `${row}: ${column} was ${JSON.stringify(live)}, the log says ${JSON.stringify(rebuilt)}`
}

const resultText = (result: RebuildResult): string =>
  [
    fields({
      group: result.group,
      models: result.models.join(', '),
      events: result.events,
      position: result.position,
      seconds: result.durationMs / 1000,
      compared: result.compared.join(', ') || null,
      replaced: result.exchanged,
    }),
    ...result.differences.map((difference) => `DIFFERENT ${differenceText(difference)}`),
  ].join('\n')

const refusalOf = (error: unknown): CliRefusal | null => {
  if (error instanceof UnknownReadModel) return new CliRefusal('not_found', error.message)
  if (error instanceof RebuildRunning) return new CliRefusal('rebuild_running', error.message)
  if (error instanceof ProjectionsRefused) return new CliRefusal('projections_refused', error.message)
  return null
}

/** `projections rebuild NAME…|all [--check]`: safe beside a running server, which goes on reading and folding. */
export const registerProjections = (program: Command, cli: Cli): void => {
  const names = groups.flatMap((group) => group.models.map(({ name }) => name))
  const projections = program.command('projections').description('make read models anew from the log')

  projections
    .command('rebuild')
    .description(
      'fill read models from the log beside the live ones, compare the two, and put them in their place',
    )
    .argument('<name...>', `read models, or all: ${names.join(', ')}`)
    .option('--check', 'compare only: leave the live tables as they are, exit with 1 when they differ')
    .action(
      cli.action(async ({ pool, log }, given: readonly string[], options: { check?: boolean }) => {
        const bar = progressBar(process.stderr)
        const compareOnly = options.check === true
        try {
          const results = await rebuild(
            { pool, log, decode: createCodec().decode, groups },
            given.includes('all') ? 'all' : given,
            { onProgress: bar.show, compareOnly },
          )
          bar.end()
          const differences = results.flatMap((result) => result.differences)
          if (compareOnly && differences.length > 0)
            throw new CliRefusal('read_models_differ', differences.map(differenceText).join('; '), {
              results,
            })
          return { json: { results }, text: results.map(resultText).join('\n\n') }
        } catch (error) {
          bar.end()
          throw refusalOf(error) ?? error
        }
      }),
    )
}

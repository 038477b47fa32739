import { groups } from '../projections/groups.ts'
import { createCodec } from '../src/platform/eventstore/codec.ts'
import { type RebuildProgress, rebuild } from '../src/platform/projections/rebuild.ts'
import { type Bench, figure } from './bench.ts'
import { withLog } from './database.ts'
import { appendHistory } from './history.ts'

/** A million events in under a minute on two cores. */
const aimPerSecond = 1_000_000 / 60

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`

/**
 * How long all read models take to be made from a log of orders: once into nothing, as at a first start, and once
 * next to live tables, with the comparison of both.
 */
export const rebuilds: Bench = {
  name: 'rebuild',
  what: 'all read models built from a log of orders; target a million events a minute',
  run: ({ url, print, bar, sizes: { events } }) =>
    withLog(url, async ({ pool, log }) => {
      const writtenMs = await appendHistory(log, events, bar)
      print(`${figure(events)} events of orders written in ${seconds(writtenMs)}`)
      const context = { pool, log, decode: createCodec().decode, groups }
      for (const what of ['into nothing', 'next to live tables, compared']) {
        const startMs = performance.now()
        const phases = new Map<string, number>()
        const onProgress = (progress: RebuildProgress): void => {
          const name = `${progress.group} ${progress.phase}`
          if (!phases.has(name)) phases.set(name, performance.now())
          bar.show({
            label: `${what}, ${name}`,
            done: progress.position,
            total: progress.target,
            count: progress.events,
            unit: 'events',
            perSecond: progress.eventsPerSecond,
            secondsLeft: progress.secondsLeft,
          })
        }
        const made = await rebuild(context, 'all', { onProgress })
        bar.end()
        const differences = made.flatMap((result) => result.differences)
        if (differences.length > 0) throw new Error(JSON.stringify(differences))
        const starts = [...phases.values(), performance.now()]
        for (const { group, events: folded, durationMs } of made) {
          const parts = [...phases.keys()].flatMap((name, at) =>
            name.startsWith(`${group} `)
              ? [`${name.slice(group.length + 1)} ${seconds((starts[at + 1] ?? 0) - (starts[at] ?? 0))}`]
              : [],
          )
          print(
            `${what}, ${group}: ${seconds(durationMs)}, ${figure((folded * 1000) / durationMs)} events a second (${parts.join(', ')})`,
          )
        }
        const ms = performance.now() - startMs
        const perSecond = (events * 1000) / ms
        print(
          `${what}, all: ${seconds(ms)}, ${figure(perSecond)} events a second, ${figure(perSecond / aimPerSecond, 2)} times the aim of ${figure(aimPerSecond)}`,
        )
      }
    }),
}

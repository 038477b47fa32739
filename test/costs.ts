import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FileRun } from './pool.ts'

/**
 * The budget of the tests: processor seconds of each file, without Postgres. `npm test -- --write-costs` and `npm run
 * test:slow -- --write-costs` measure the files again.
 */
const path = join(import.meta.dirname, 'costs.tsv')
const head = 'seconds\tfile'

/** A file of `npm test` takes at most this many processor seconds. */
export const fileLimitSeconds = 5
/** A folder may take this much more than the sum of its files: the same run differs by as much. */
const tolerance = 1.02

const readCosts = (): Map<string, number> =>
  new Map(
    readFileSync(path, 'utf8')
      .trim()
      .split('\n')
      .slice(1)
      .map((line) => {
        const [seconds = '', file = ''] = line.split('\t')
        return [file, Number(seconds)]
      }),
  )

/** @param exists the files that the list may name */
export const writeCosts = (runs: readonly FileRun[], exists: ReadonlySet<string>): void => {
  const costs = readCosts()
  for (const { file, cpuSeconds } of runs) costs.set(file, Math.round(10 * cpuSeconds) / 10)
  const lines = [...costs]
    .filter(([file]) => exists.has(file))
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([file, seconds]) => `${seconds.toFixed(1)}\t${file}`)
  writeFileSync(path, `${[head, ...lines].join('\n')}\n`)
}

type Above = { readonly name: string; readonly seconds: number; readonly budget: number }

/** The folders and the whole run that took more than their files' budgets, and fast files above their limit. */
export const aboveBudget = (
  runs: readonly FileRun[],
  isFast: (file: string) => boolean,
): readonly Above[] => {
  const costs = readCosts()
  const sums = new Map<string, { seconds: number; budget: number }>()
  for (const { file, cpuSeconds } of runs)
    for (const name of ['all', `test/${file.split('/')[1]}/`]) {
      const { seconds, budget } = sums.get(name) ?? { seconds: 0, budget: 0 }
      sums.set(name, { seconds: seconds + cpuSeconds, budget: budget + (costs.get(file) ?? 0) })
    }
  return [
    ...[...sums]
      .map(([name, sum]) => ({ name, ...sum }))
      .filter(({ seconds, budget }) => seconds > tolerance * budget),
    ...runs
      .filter(({ file, cpuSeconds }) => isFast(file) && cpuSeconds > fileLimitSeconds)
      .map(({ file, cpuSeconds }) => ({ name: file, seconds: cpuSeconds, budget: fileLimitSeconds })),
  ]
}

import type { TestEvent } from 'node:test/reporters'

const shown = 10

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1).padStart(7)} s`

/** A reporter of node's test runner: the files and the tests that took longest, once all have ended. */
export default async function* slowest(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const files: { name: string; ms: number }[] = []
  const tests: { name: string; ms: number }[] = []
  for await (const { type, data } of events) {
    if (type === 'test:summary' && data.file !== undefined)
      files.push({ name: data.file.slice(process.cwd().length + 1), ms: data.duration_ms })
    if ((type === 'test:pass' || type === 'test:fail') && data.details.type !== 'suite')
      tests.push({ name: data.name, ms: data.details.duration_ms })
  }
  for (const [what, all] of [
    ['files', files],
    ['tests', tests],
  ] as const) {
    yield `\nThe slowest ${what}:\n`
    for (const { name, ms } of all.toSorted((a, b) => b.ms - a.ms).slice(0, shown))
      yield `${seconds(ms)}  ${name}\n`
  }
}

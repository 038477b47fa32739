import type { run } from 'node:test'

const shown = 10

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1).padStart(7)} s`

/** Listens to a run. @returns the files and the tests that took longest so far, as text */
export const watchSlowest = (events: ReturnType<typeof run>): (() => string) => {
  const files: { name: string; ms: number }[] = []
  const tests: { name: string; ms: number }[] = []
  const note = ({ name, details }: { name: string; details: { type?: string; duration_ms: number } }) => {
    if (details.type !== 'suite') tests.push({ name, ms: details.duration_ms })
  }
  events.on('test:pass', note)
  events.on('test:fail', note)
  events.on('test:summary', ({ file, duration_ms: ms }) => {
    if (file !== undefined) files.push({ name: file.slice(process.cwd().length + 1), ms })
  })
  return () =>
    (
      [
        ['files', files],
        ['tests', tests],
      ] as const
    )
      .flatMap(([what, all]) => {
        const slowest = all.toSorted((a, b) => b.ms - a.ms).slice(0, shown)
        return [`\nThe slowest ${what}:`, ...slowest.map(({ name, ms }) => `${seconds(ms)}  ${name}`)]
      })
      .join('\n')
}

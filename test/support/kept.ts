import type { TestContext } from 'node:test'

/** What a process of test/pool.ts keeps open for its next files, such as a service that several files use. */
const closings: (() => unknown)[] = []
const first = Promise.withResolvers<void>()

/** In place of the context of a test, for what stays open until the process has run its last file. */
export const keeper = {
  after: (close: () => unknown) => {
    closings.push(close)
    first.resolve()
  },
} as unknown as TestContext

/** How much is kept. */
export const keptCount = (): number => closings.length

/** Resolves as soon as anything is kept. */
export const untilKept = (): Promise<void> => first.promise

/** Closes all of it. */
export const closeKept = async (): Promise<void> => {
  for (const close of closings.splice(0)) await close()
}

import type { TestContext } from 'node:test'

/** What a process of test/pool.ts uses for several files, such as a service. It is closed after the last file. */
const closings: (() => unknown)[] = []
const first = Promise.withResolvers<void>()

/** In place of the context of a test, for what stays open until the process has run its last file. */
export const workerContext = {
  after: (close: () => unknown) => {
    closings.push(close)
    first.resolve()
  },
} as unknown as TestContext

/** How many are open. */
export const resourceCount = (): number => closings.length

/** Resolves as soon as one is open. */
export const firstResource = (): Promise<void> => first.promise

export const closeResources = async (): Promise<void> => {
  for (const close of closings.splice(0)) await close()
}

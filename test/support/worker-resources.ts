import type { TestContext } from 'node:test'

const first = Promise.withResolvers<void>()

const resources = () => {
  const closings: (() => unknown)[] = []
  const after = (close: () => unknown): void => {
    closings.push(close)
    first.resolve()
  }
  return {
    /** In place of the context of a test. */
    context: { after } as unknown as TestContext,
    /** How many are open. */
    count: () => closings.length,
    close: async () => {
      for (const close of closings.splice(0)) await close()
    },
  }
}

/** What a process of test/pool.ts uses for several files, such as a service. It is closed after the last file. */
export const workerResources = resources()

/** What the tests of one file share. It is closed after the file. */
export const fileResources = resources()

/** Resolves as soon as one is open. */
export const firstResource = (): Promise<void> => first.promise

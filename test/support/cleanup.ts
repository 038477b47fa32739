import type { TestContext } from 'node:test'

type Step = () => unknown

/** Of the tests that have not ended. */
const stepsOf = new Map<TestContext, Step[]>()

/** Last added first. */
const runAll = async (steps: Step[]): Promise<void> => {
  for (let next = steps.pop(); next; next = steps.pop()) await next()
}

/** How long an interrupted file may take to clean up. */
const patienceMs = 20_000

/** A run that is interrupted sends SIGTERM to its files: servers that they started would live on without them. */
const endInterrupted = (): void => {
  const end = (): never => process.exit(128 + 15)
  setTimeout(end, patienceMs)
  void Promise.allSettled([...stepsOf.values()].map(runAll)).then(end)
}

/** Runs a step at the end of the test, last added first (`t.after` runs them first added first), or when it is interrupted. */
export const atEnd = (t: TestContext, step: Step): void => {
  const known = stepsOf.get(t)
  if (known) {
    known.push(step)
    return
  }
  const steps = [step]
  if (stepsOf.size === 0) process.once('SIGTERM', endInterrupted)
  stepsOf.set(t, steps)
  t.after(async () => {
    try {
      await runAll(steps)
    } finally {
      stepsOf.delete(t)
      if (stepsOf.size === 0) process.off('SIGTERM', endInterrupted)
    }
  })
}

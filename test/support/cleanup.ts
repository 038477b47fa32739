import type { TestContext } from 'node:test'

const stepsOf = new WeakMap<TestContext, (() => unknown)[]>()

/** Runs a step at the end of the test, last added first (`t.after` runs them first added first). */
export const atEnd = (t: TestContext, step: () => unknown): void => {
  const known = stepsOf.get(t)
  if (known) {
    known.push(step)
    return
  }
  const steps = [step]
  stepsOf.set(t, steps)
  t.after(async () => {
    for (let next = steps.pop(); next; next = steps.pop()) await next()
  })
}

/** Collects steps that close resources, and runs them in reverse order. */
export type CloseStack = {
  add(step: () => unknown): void
  /** Runs every step, then throws the first error. May be called repeatedly. */
  close(): Promise<void>
}

const createClosing = (): CloseStack => {
  const steps: (() => unknown)[] = []
  let closed: Promise<void> | null = null
  const close = async (): Promise<void> => {
    const errors: unknown[] = []
    for (const step of steps.reverse())
      try {
        await step()
      } catch (error) {
        errors.push(error)
      }
    if (errors.length > 0) throw errors[0]
  }
  return {
    add: (step) => {
      steps.push(step)
    },
    close: () => {
      closed ??= close()
      return closed
    },
  }
}

/** Calls `open` with a `CloseStack`, and closes the stack if `open` fails. Otherwise the opened object closes it. */
export const closeOnFailure = async <Opened>(
  open: (closing: CloseStack) => Promise<Opened>,
): Promise<Opened> => {
  const closing = createClosing()
  try {
    return await open(closing)
  } catch (error) {
    await closing.close().catch(() => undefined) // the first error is the useful one
    throw error
  }
}

/** Calls `work` with a `CloseStack`, and closes the stack after success and failure. */
export const closeAfter = async <Value>(work: (closing: CloseStack) => Promise<Value>): Promise<Value> => {
  const closing = createClosing()
  try {
    return await work(closing)
  } finally {
    await closing.close()
  }
}

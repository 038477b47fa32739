/** Collects what has to be closed, and closes it last first. */
export type CloseStack = {
  add(step: () => unknown): void
  /** Gives every step its turn, then throws the first error. Safe to call twice. */
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

/** Gives `open` a `CloseStack` to fill, and closes it when opening fails; what opened closes it otherwise. */
export const closeOnFailure = async <Opened>(
  open: (closing: CloseStack) => Promise<Opened>,
): Promise<Opened> => {
  const closing = createClosing()
  try {
    return await open(closing)
  } catch (error) {
    await closing.close().catch(() => undefined) // what went wrong first is what helps
    throw error
  }
}

/** Gives `work` a `CloseStack` to fill, and closes it once the work is over, however it ends. */
export const closeAfter = async <Value>(work: (closing: CloseStack) => Promise<Value>): Promise<Value> => {
  const closing = createClosing()
  try {
    return await work(closing)
  } finally {
    await closing.close()
  }
}

/** Runs at most `limit` at once; the rest wait in the order of arrival. */
export const createAtMost = (limit: number) => {
  const waiting: (() => void)[] = []
  let running = 0

  return async <Value>(run: () => Promise<Value>): Promise<Value> => {
    if (running < limit) running++
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      return await run()
    } finally {
      const next = waiting.shift()
      // The place is handed on, so nobody who comes now can take it first.
      if (next === undefined) running--
      else next()
    }
  }
}

export type AtMost = ReturnType<typeof createAtMost>

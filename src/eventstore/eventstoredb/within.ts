/** The value, or what `late` makes when it takes longer. What comes after that is dropped, a failure too. */
export const within = async <Value>(value: Promise<Value>, ms: number, late: () => Error): Promise<Value> => {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), ms)
  })
  try {
    return await Promise.race([value, timeout])
  } finally {
    clearTimeout(timer)
  }
}

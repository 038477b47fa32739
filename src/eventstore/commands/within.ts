/** Settles as the promise does, or rejects after `limitMs`; what it was waiting for goes on unheard. */
export const within = async <Value>(
  promise: Promise<Value>,
  limitMs: number,
  what: string,
): Promise<Value> => {
  let timer: NodeJS.Timeout | undefined
  const bound = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took longer than ${limitMs} ms`)), limitMs)
  })
  try {
    return await Promise.race([promise, bound])
  } finally {
    clearTimeout(timer)
  }
}

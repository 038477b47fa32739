/**
 * Settles as the promise does, or rejects with what `late` makes once `limitMs` have passed. What is waited for goes on
 * all the same; its outcome is dropped then, a failure too.
 */
export const within = <Value>(promise: Promise<Value>, limitMs: number, late: () => Error): Promise<Value> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), limitMs)
    promise.then(resolve, reject).finally(() => clearTimeout(timer))
  })

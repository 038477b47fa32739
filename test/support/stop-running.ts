/** Lets no timer and no answer through for so long, as a machine without a processor to spare does. */
export const stopRunning = (ms: number): void => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

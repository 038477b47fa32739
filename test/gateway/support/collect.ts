import assert from 'node:assert/strict'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { until } from '../../support/until.ts'

/** Frees unreferenced memory, so that referenced memory can be measured. */
export const collect = (): void => {
  setFlagsFromString('--expose-gc')
  ;(runInNewContext('gc') as () => void)()
}

/**
 * Waits until no more than this many bytes are referenced. Unreferenced memory is freed some time after a
 * collection, later on a busy machine; referenced memory stays, however long the wait is.
 */
export const holdsAtMost = async (bytes: number, kind: 'heapUsed' | 'arrayBuffers'): Promise<void> => {
  let held = 0
  const isWithin = (): boolean => {
    collect()
    held = process.memoryUsage()[kind]
    return held <= bytes
  }
  await until(isWithin, { timeoutMs: 10_000, everyMs: 50 }).catch(() =>
    assert.fail(`${held} bytes are held, ${held - bytes} too many`),
  )
}

import assert from 'node:assert/strict'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { until } from '../../support/until.ts'

/** Frees what nobody holds, so that what is held can be measured. */
export const collect = (): void => {
  setFlagsFromString('--expose-gc')
  ;(runInNewContext('gc') as () => void)()
}

/**
 * Waits until no more is held than so many bytes. What nobody holds is freed behind the back of a collection, later the busier
 * the machine is; what is held stays, however long it is waited for.
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

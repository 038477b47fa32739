import { describe } from 'node:test'
import { appendContract } from './contract/appends.ts'
import { itemContract } from './contract/items.ts'
import { limitContract } from './contract/limits.ts'
import { modelContract } from './contract/model.ts'
import { readContract } from './contract/reads.ts'
import { subscriptionContract } from './contract/subscriptions.ts'
import type { LogTraits, OpenLog } from './contract/under-test.ts'
import { volumeContract } from './contract/volume.ts'

export type { LogTraits, LogUnderTest, OpenLog } from './contract/under-test.ts'

/**
 * The suite that every adapter of the event log passes (src/platform/eventstore/port.ts), e.g.
 *
 *     runLogContract('postgres', openLog, { gapless: true, atomicItems: true })
 *
 * `openLog(t)` is called once per test and returns a `LogUnderTest`: the log, `reopen()` for a second one over the same
 * store (as in another process or after a restart), `interrupt` to break its connections (null: that test is reported
 * as skipped, by name), and `elsewhere`, which opens the same store in a child process. `t.after` closes everything
 * that it opens, never the suite, except for logs from `reopen()` that a test closes early (`close()` twice must be
 * harmless).
 *
 * The store need not be empty or private: the suite writes to new `order-…` streams only and reads nothing else, and
 * it relies on gapless positions only if the traits say so (`gapless` also means a separate store).
 */
export const runLogContract = (name: string, openLog: OpenLog, traits: LogTraits): void => {
  describe(`event log contract: ${name}`, () => {
    appendContract(openLog, traits)
    itemContract(openLog, traits)
    limitContract(openLog)
    readContract(openLog)
    subscriptionContract(openLog)
    modelContract(openLog)
    volumeContract(openLog, traits)
  })
}

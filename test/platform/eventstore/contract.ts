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
 * `openLog(t)` is called once a test and gives a `LogUnderTest`: the log, `reopen()` for a second one over the same
 * store (as another process or a restart would have it), `interrupt` to break its connections (null: that test is
 * reported as skipped, by name), and `elsewhere`, how a child process opens the same store. Whatever it opens is closed
 * by `t.after`, never by the suite, save for logs that a test got from `reopen()` and closes early (`close()` twice
 * must be harmless).
 *
 * The store need not be empty or private: the suite writes to fresh `order-…` streams only and looks at nothing else,
 * and it counts on gapless positions only where the traits say so (`gapless` also means a store of its own).
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

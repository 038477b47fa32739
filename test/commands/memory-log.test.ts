import { describe } from 'node:test'
import { appendContract } from '../eventstore/contract/appends.ts'
import { itemContract } from '../eventstore/contract/items.ts'
import { limitContract } from '../eventstore/contract/limits.ts'
import { modelContract } from '../eventstore/contract/model.ts'
import { readContract } from '../eventstore/contract/reads.ts'
import type { OpenLog } from '../eventstore/contract/under-test.ts'
import { createMemoryLog } from '../support/memory-log.ts'

const traits = { gapless: true, atomicItems: true }

const openLog: OpenLog = async () => {
  const log = createMemoryLog()
  // The store is the log itself. No other process sees it, so the suites of several processes do not apply.
  return { log, reopen: async () => log, interrupt: null, elsewhere: { module: '', argument: '' } }
}

describe('the log in memory that tests of the command runner use is honest', () => {
  appendContract(openLog, traits)
  itemContract(openLog, traits)
  limitContract(openLog)
  readContract(openLog)
  modelContract(openLog)
})

import { describe } from 'node:test'
import { createMemoryLog } from '../../support/memory-log.ts'
import { appendContract } from './contract/appends.ts'
import { itemContract } from './contract/items.ts'
import { limitContract } from './contract/limits.ts'
import { modelContract } from './contract/model.ts'
import { readContract } from './contract/reads.ts'
import type { OpenLog } from './contract/under-test.ts'

const traits = { gapless: true, atomicItems: true }

const openLog: OpenLog = async () => {
  const log = createMemoryLog()
  // The store is the log itself. No other process sees it, so the suites of several processes do not apply.
  return { log, reopen: async () => log, interrupt: null, elsewhere: { module: '', argument: '' } }
}

describe("the in-memory log of the command runner's tests fulfils the contract", () => {
  appendContract(openLog, traits)
  itemContract(openLog, traits)
  limitContract(openLog)
  readContract(openLog)
  modelContract(openLog)
})

import { test } from 'node:test'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { type OpenLog, runLogContract } from './contract.ts'
import { runFaultTests } from './eventstoredb-faults.ts'
import {
  openLog,
  restartCommand,
  restartServer,
  serverUrl,
  skipWithoutServer,
} from './eventstoredb-server.ts'

const name = 'eventstoredb'

const openAt =
  (url: string): OpenLog =>
  async (t) => {
    const open = async (): Promise<EventLog> => {
      const log = await openLog(url)
      t.after(() => log.close())
      return log
    }
    return {
      log: await open(),
      reopen: open,
      interrupt: restartCommand ? restartServer : null,
      elsewhere: { module: new URL('./eventstoredb-server.ts', import.meta.url).href, argument: url },
    }
  }

if (serverUrl) runLogContract(name, openAt(serverUrl), { gapless: false, atomicItems: false })
else test(`event log contract: ${name}`, { skip: skipWithoutServer })
// In one file, so that no other test writes to a server that is being killed.
runFaultTests()

import { exec } from 'node:child_process'
import { promisify } from 'node:util'
import { eventStoreDbLog } from '../../../src/platform/eventstore/eventstoredb/log.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'

/** A real server that tests may write to, e.g. `esdb://127.0.0.1:2113?tls=false`; what needs it is skipped without. */
export const serverUrl = process.env.FAREBOX_TEST_EVENTSTORE_URL

/** A shell command that kills that server, starts it again over the same data and waits until it is ready. */
export const restartCommand = process.env.FAREBOX_TEST_EVENTSTORE_RESTART

export const skipWithoutServer = serverUrl ? false : 'FAREBOX_TEST_EVENTSTORE_URL is not set'
export const skipWithoutRestart =
  skipWithoutServer || (restartCommand ? false : 'FAREBOX_TEST_EVENTSTORE_RESTART is not set')

export const restartServer = async (): Promise<void> => {
  await promisify(exec)(restartCommand!, { timeout: 120_000 })
}

/** How another process opens the log of the test server. */
export const openLog = async (url: string): Promise<EventLog> => eventStoreDbLog({ url })

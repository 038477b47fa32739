import type { TestContext } from 'node:test'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { startEventStore } from '../../support/eventstore-server.ts'
import { logInPostgres } from '../../support/service-env.ts'
import { openLog as openEventStoreLog } from './eventstoredb-server.ts'
import { openLog } from './open-postgres.ts'

/** The log that FAREBOX_TEST_LOG names: in this migrated database, or in an EventStoreDB server of the test's own. */
export const openChosenLog = async (t: TestContext, url: string): Promise<EventLog> =>
  logInPostgres ? openLog(url) : openEventStoreLog((await startEventStore(t)).url)

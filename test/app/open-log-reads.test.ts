import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readConfig } from '../../src/app/config.ts'
import { openLogReads } from '../../src/app/open-log-reads.ts'
import { closeAfter } from '../../src/kernel/resource-scope.ts'
import { createLogger } from '../../src/platform/http/logging.ts'
import { StartRefused } from '../../src/platform/postgres/errors.ts'
import { testDatabase } from '../support/postgres.ts'

test('a gateway does not start without EVENTSTORE_URL if the log is in an EventStoreDB', async (t) => {
  const { pool } = await testDatabase(t)
  const config = readConfig({})
  const open = () =>
    closeAfter((closing) => openLogReads(closing, { config, pool, logger: createLogger('silent') }))
  const { logId } = await open()
  await pool.query(
    `insert into engine.checkpoints (name, log_id, position, epoch, definitions) values ('hot', $1, 0, 0, '{}')`,
    [await logId()],
  )
  await open()
  await pool.query(`update engine.checkpoints set log_id = 'another' where name = 'hot'`)
  await assert.rejects(open, StartRefused)
})

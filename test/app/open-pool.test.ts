import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openPool } from '../../src/app/open-pool.ts'
import { closeAfter } from '../../src/kernel/resource-scope.ts'
import { createLogger } from '../../src/platform/http/logging.ts'

test('a certificate file of the database that cannot be read is named with its setting', async () => {
  for (const [name, path, reason] of [
    ['sslrootcert', '/absent/x.pem', 'ENOENT'],
    ['sslcert', '/', 'EISDIR'],
    ['sslkey', '/absent/x.pem', 'ENOENT'],
  ])
    await closeAfter((closing) =>
      assert.rejects(
        openPool(
          closing,
          {
            url: `postgres://u:p@127.0.0.1:1/d?sslmode=verify-full&${name}=${path}`,
            applicationName: 'test',
            max: 1,
          },
          { withinMs: 100, logger: createLogger('silent'), setting: 'DATABASE_OWNER_URL' },
        ),
        {
          name: 'StartRefused',
          message: new RegExp(`^DATABASE_OWNER_URL: ${name} is no file that can be read .*${reason}`),
        },
      ),
    )
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readConfig } from '../../src/app/config.ts'
import { openCliContext } from '../../src/app/open-context.ts'
import { scrapersSandboxUrl } from '../../src/app/open-sandbox.ts'
import { storeUsedPorts, withUsedPorts } from '../../src/app/used-ports.ts'
import { demoEnv } from '../support/demo-env.ts'
import { dataDirectory } from '../support/farebox.ts'
import { testDatabase } from '../support/postgres.ts'

test('commands show the ports of the last server, or those of the settings before the first start', async (t) => {
  const { url } = await testDatabase(t)
  const config = readConfig({
    ...demoEnv(url, await dataDirectory(t)),
    PORT: '3000',
    FAREBOX_GATEWAY_PORT: '9000',
  })
  const open = async () => {
    const { context, close } = await openCliContext(config, false, Date.now)
    t.after(close)
    return context
  }
  const { pool, config: before } = await open()
  assert.equal(before.gateway.port, 9000)
  await storeUsedPorts(pool, { gateway: 40_001, sandbox: 40_002 })
  await storeUsedPorts(pool, { gateway: 40_003, sandbox: null })
  assert.equal((await open()).config.gateway.port, 40_003)
  assert.match(scrapersSandboxUrl(await withUsedPorts(config, pool)) ?? '', /^http:\/\/127\.0\.0\.1:40002\//)
})

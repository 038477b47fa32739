import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import { dataDirectory, startFarebox, surroundings } from '../support/farebox.ts'
import { ownPort } from '../support/own-port.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')
const readme = readFileSync(join(root, 'README.md'), 'utf8')
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))

/** The blocks of the README that a reader copies into a shell. */
const blocks = [...readme.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block)

describe('the README', () => {
  test('has commands that run as printed, and every curl line returns the printed answer', async (t) => {
    assert.equal(blocks.length, 3)
    const dataDir = await dataDirectory(t)
    const server = await startFarebox(t, {
      FAREBOX_DATA: dataDir,
      FAREBOX_GATEWAY_WORKERS: '1',
      FAREBOX_GATEWAY_PORT: String(await ownPort()),
    })
    // The last block uses the variables of the first one.
    const [tour = '', commands = '', finance = ''] = blocks
    const variables = tour.split('\n').slice(0, 2).join('\n')
    for (const block of [tour, commands, `${variables}\n${finance}`]) {
      const script = block
        .replaceAll('http://127.0.0.1:3000', server.baseUrl)
        .replaceAll('.farebox/', `${dataDir}/`)
        // npx would look in the registry of the machine where the bin is not linked; this is the file behind it.
        .replaceAll('npx farebox', `'${process.execPath}' src/cli.ts`)
        .replaceAll('curl -s ', 'curl -sS --fail-with-body ')
      const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script], {
        cwd: root,
        // The reader's server has the usual port, this one has its own.
        env: { ...surroundings(), FAREBOX_DATA: dataDir, PORT: new URL(server.baseUrl).port },
      })
      assert.doesNotMatch(stdout, /"code":/)
      if (block === tour) assert.match(stdout, /"status":"completed"[\s\S]*"amountCents":560/)
      if (block === tour)
        assert.match(stdout, /"credited_cents":2500|"status":"(paid|processing|awaiting_payment)"/)
      if (block.includes(finance)) assert.match(stdout, /nothing is wrong[\s\S]*nothing is wrong/)
    }
    await server.stop()
  })

  test('names existing scripts of package.json, and a bin for npx', () => {
    for (const [, script = ''] of readme.matchAll(/npm run ([a-z:]+)/g))
      assert.ok(script in manifest.scripts, script)
    assert.ok(manifest.bin.farebox)
  })
})

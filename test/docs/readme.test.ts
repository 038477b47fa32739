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
const pageOf = (file: string): string => readFileSync(join(root, file), 'utf8')
const readme = pageOf('README.md')
const manifest = JSON.parse(pageOf('package.json'))

/** The blocks of a page that a reader copies into a shell. */
const blocksOf = (page: string): readonly string[] =>
  [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block)

describe('the README and the tour', () => {
  test('have commands that run as printed, and every curl line returns the printed answer', async (t) => {
    const [short = '', ...none] = blocksOf(readme)
    const [customers = '', operators = '', finance = '', ...more] = blocksOf(pageOf('docs/tour.md'))
    assert.deepEqual([...none, ...more], [])
    const dataDir = await dataDirectory(t)
    const server = await startFarebox(t, {
      FAREBOX_DATA: dataDir,
      FAREBOX_AUDITOR: 'on',
      FAREBOX_GATEWAY_WORKERS: '1',
      FAREBOX_GATEWAY_PORT: String(await ownPort()),
    })
    const runBlock = async (block: string): Promise<string> => {
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
      return stdout
    }
    // The block of finance uses the variables of the first one.
    const variables = customers.split('\n').slice(0, 2).join('\n')
    assert.match(await runBlock(short), /"status":"completed"[\s\S]*nothing is wrong/)
    const bought = await runBlock(customers)
    assert.match(bought, /"status":"completed"[\s\S]*"amountCents":560/)
    assert.match(bought, /"credited_cents":2500|"status":"(paid|processing|awaiting_payment)"/)
    await runBlock(operators)
    assert.match(await runBlock(`${variables}\n${finance}`), /nothing is wrong[\s\S]*nothing is wrong/)
    await server.stop()
  })

  test('names existing scripts of package.json, and a bin for npx', () => {
    for (const [, script = ''] of readme.matchAll(/npm run ([a-z:]+)/g))
      assert.ok(script in manifest.scripts, script)
    assert.ok(manifest.bin.farebox)
  })
})

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { testApp } from '../../support/test-app.ts'

const root = join(import.meta.dirname, '../../..')
const suite = join(root, 'node_modules/@modelcontextprotocol/conformance/dist/index.js')

type Check = { readonly id: string; readonly status: string; readonly errorMessage?: string }

/** Every check that the protocol's own suite makes of a server at one revision, by scenario. */
const conformance = async (
  t: TestContext,
  url: string,
  revision: string,
): Promise<ReadonlyMap<string, readonly Check[]>> => {
  const folder = await mkdtemp(join(tmpdir(), 'farebox-mcp-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const args = ['server', '--url', url, '--suite', 'all', '--spec-version', revision, '-o', folder]
  const child = spawn(process.execPath, [suite, ...args], { stdio: 'ignore' })
  await once(child, 'exit')
  const found = new Map<string, readonly Check[]>()
  for (const name of await readdir(folder)) {
    const [, scenario = ''] = /^server-(.*)-\d{4}-\d\d-\d\dT/.exec(name) ?? []
    found.set(scenario, JSON.parse(await readFile(join(folder, name, 'checks.json'), 'utf8')))
  }
  return found
}

/**
 * The suite also tests optional features: its own tools, resources, prompts, questions to the user. This
 * server answers as one without them.
 */
const absent =
  /\bMethod not found|\bTool \S+ not found|^Not testable: server (?:does not list|exposes no tool)|^Prerequisite failed: could not get initial InputRequiredResult|^Expected InputRequiredResult with inputRequests/

const mustPass: Readonly<Record<string, readonly string[]>> = {
  '2025-11-25': ['server-initialize', 'ping', 'tools-list', 'dns-rebinding-protection'],
  '2026-07-28': [
    'tools-list',
    'dns-rebinding-protection',
    'http-header-validation',
    'server-sse-multiple-streams',
  ],
}

test('the tools pass the test suites of the Model Context Protocol', async (t) => {
  const { baseUrl } = await testApp(t, { own: true })
  for (const [revision, scenarios] of Object.entries(mustPass))
    await t.test(`of ${revision}`, async (t) => {
      const found = await conformance(t, `${baseUrl}/mcp`, revision)
      for (const [scenario, checks] of found)
        for (const { id, status, errorMessage = '' } of checks)
          if (status === 'FAILURE') assert.match(errorMessage, absent, `${scenario}: ${id}`)
      for (const scenario of scenarios) {
        const checks = found.get(scenario) ?? []
        assert.ok(
          checks.some(({ status }) => status === 'SUCCESS'),
          `${scenario} ran`,
        )
        assert.ok(
          checks.every(({ status }) => status !== 'FAILURE'),
          scenario,
        )
      }
      const passed = [...found.values()].flat().filter(({ status }) => status === 'SUCCESS')
      t.diagnostic(`${passed.length} checks of ${found.size} scenarios passed`)
    })
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { appCommands } from '../../src/app/app-commands.ts'
import { runCli } from '../../src/app/cli-program.ts'
import { eventDefinitions } from '../../src/domain/events.ts'
import { testApp } from '../support/test-app.ts'

const run = async (args: readonly string[], environment: NodeJS.ProcessEnv) => {
  const out: string[] = []
  const err: string[] = []
  const code = await runCli(args, appCommands, {
    out: (text) => out.push(text),
    err: (text) => err.push(text),
    environment,
    clock: Date.now,
    open: async () => {
      throw new Error('these commands need no context')
    },
  })
  assert.equal(code, 0, err.join('\n'))
  return out.join('\n')
}

test("the list of a server's routes contains those of the interface description", async (t) => {
  const { env, document } = await testApp(t)
  const { routes, total } = JSON.parse(await run(['routes', '--json'], env))
  assert.equal(routes.length, total)
  const listed = new Set(routes.map(({ method, path }: Record<string, string>) => `${method} ${path}`))
  const methods = ['get', 'post', 'put', 'patch', 'delete']
  // Each scraper has an operation in the description; one route serves all of them.
  for (const [path, operations] of Object.entries(document.paths))
    for (const method of Object.keys(operations as object).filter((name) => methods.includes(name)))
      if (!/^\/v1\/scrape\/\w+\/[\w-]+$/.test(path) || path.includes('{'))
        assert.ok(listed.has(`${method.toUpperCase()} ${path}`), `${method} ${path} is not listed`)
  for (const path of ['/console', '/readyz', '/paid']) assert.ok(listed.has(`GET ${path}`), path)

  const text = await run(['routes', '--api'], env)
  assert.match(text, /^POST +\/api\/v1\/orders +scope buy +createOrder +Place an order$/m)
  assert.doesNotMatch(text, /\/console/)
})

test('every type of event is listed with its stream and its meaning', async () => {
  const { events } = JSON.parse(await run(['events', '--json'], {}))
  assert.deepEqual(
    events,
    eventDefinitions.map(({ type, stream, means }) => ({ type, stream, means })),
  )
  assert.match(await run(['events'], {}), /^WalletDebited +ledger-\{account\} +An order was paid/m)
})

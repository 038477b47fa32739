import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { testApp } from '../support/test-app.ts'

const modules = join(import.meta.dirname, '../../node_modules')
const generators = join(modules, 'farebox-test-clients/node_modules/.bin')

/** With the types that the generators promise: a field or code of another name does not compile. */
const clients = [
  {
    name: 'openapi-typescript',
    files: {},
    generate: ['openapi-typescript', 'openapi.json', '-o', 'farebox.d.ts'],
    program: `
import createClient from 'openapi-fetch'
import type { paths } from './farebox.d.ts'

const client = createClient<paths>({ baseUrl, headers: { 'X-API-Key': apiKey } })
const buy = (product_id: string) =>
  client.POST('/api/v1/orders', {
    params: { header: { 'Idempotency-Key': crypto.randomUUID() } },
    body: { product_id, quantity: 1 },
  })
const placed = await buy('residential-premium')
const refused = await buy('none')
const order = placed.data
const code = refused.error?.code
const { data: lines } = await client.POST('/api/v1/plans/{id}/generate', {
  params: { path: { id: order?.planId ?? '' } },
  body: { count: 2 },
})
`,
  },
  {
    name: 'hey-api',
    files: {
      'config.mjs': `export default { input: 'openapi.json', output: { path: 'hey', module: { extension: '.ts' } } }`,
    },
    generate: ['openapi-ts', '-f', 'config.mjs'],
    program: `
import { client } from './hey/client.gen.ts'
import { createOrder, generateLines } from './hey/sdk.gen.ts'

client.setConfig({ baseUrl, headers: { 'X-API-Key': apiKey } })
const buy = (product_id: string) =>
  createOrder({
    headers: { 'Idempotency-Key': crypto.randomUUID() },
    body: { product_id, quantity: 1 },
  })
const placed = await buy('residential-premium')
const refused = await buy('none')
const order = placed.data
const code = refused.error?.code
const { data: lines } = await generateLines({ path: { id: order?.planId ?? '' }, body: { count: 2 } })
`,
  },
  {
    name: 'orval',
    files: {
      'orval.config.mjs': `export default {
  farebox: {
    input: './openapi.json',
    output: { target: './orval.ts', client: 'fetch', baseUrl: process.env.SERVICE },
  },
}`,
    },
    generate: ['orval', '--config', 'orval.config.mjs'],
    program: `
import { createOrder, generateLines } from './orval.ts'

const headers = { 'X-API-Key': apiKey }
const buy = (product_id: string) =>
  createOrder(
    { product_id, quantity: 1 },
    undefined,
    { headers: { ...headers, 'Idempotency-Key': crypto.randomUUID() } },
  )
const placed = await buy('residential-premium')
const refused = await buy('none')
const order = placed.status === 201 || placed.status === 200 ? placed.data : undefined
const code = refused.status === 400 ? refused.data.code : undefined
const answer = await generateLines(order?.planId ?? '', { count: 2 }, undefined, { headers })
const lines = answer.status === 200 ? answer.data : undefined
`,
  },
] as const

const head = `
const baseUrl = process.env.SERVICE ?? ''
const apiKey = process.env.KEY ?? ''
`

const tail = `
const amount: number | undefined = order?.amountCents
if (order?.status !== 'completed' || amount === undefined) throw new Error(JSON.stringify(placed))
if (code !== 'unknown_product') throw new Error(JSON.stringify(refused))
const count: number | undefined = lines?.lines.length
console.log(order.orderId, count)
`

const compilerOptions = {
  strict: true,
  noEmit: true,
  target: 'esnext',
  module: 'nodenext',
  allowImportingTsExtensions: true,
  lib: ['esnext', 'dom', 'dom.iterable'],
  types: ['node'],
}

for (const document of ['openapi-core', 'openapi'])
  test(`clients of /${document}.json are generated, compile in strict mode and place an order`, async (t) => {
    const { baseUrl, demo, credit } = await testApp(t)
    await credit(demo.buyer.accountId, 100_000)
    for (const { name, files, generate, program } of clients)
      await t.test(name, async (t) => {
        const folder = await mkdtemp(join(tmpdir(), 'farebox-client-'))
        t.after(() => rm(folder, { recursive: true }))
        await symlink(modules, join(folder, 'node_modules'))
        const [command, ...args] = generate
        const written = {
          ...files,
          'package.json': '{ "type": "module" }',
          'openapi.json': await (await fetch(`${baseUrl}/${document}.json`)).text(),
          'order.ts': `${program.replace(/\n\n/, `\n${head}`)}${tail}`,
          'tsconfig.json': JSON.stringify({ compilerOptions, include: ['*.ts', 'hey'] }),
        }
        for (const [file, text] of Object.entries(written)) await writeFile(join(folder, file), text)
        const env = { ...process.env, SERVICE: baseUrl, KEY: demo.buyer.key }
        const run = async (program: string, parameters: readonly string[]) => {
          const { stdout } = await promisify(execFile)(process.execPath, [program, ...parameters], {
            cwd: folder,
            env,
          }).catch((error: { stdout: string; stderr: string }) =>
            assert.fail(`${program}\n${error.stdout}\n${error.stderr}`),
          )
          return stdout
        }
        await run(join(generators, command), args)
        await run(join(modules, 'typescript/bin/tsc'), ['-p', '.'])
        assert.match(await run('order.ts', []), /^ord_\w+ 2\n$/)
      })
  })

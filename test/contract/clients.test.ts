import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { testApp } from '../support/test-app.ts'

const modules = join(import.meta.dirname, '../../node_modules')
const generators = join(modules, 'farebox-test-clients/node_modules/.bin')

const page = readFileSync(join(import.meta.dirname, '../../docs/reference/api.md'), 'utf8')

/** The command of a generator as the page prints it, without `npx`. */
const commandOf = (name: string): readonly string[] => {
  const [, command = ''] = new RegExp(`\\x60npx (${name} [^\\x60]+)\\x60`).exec(page) ?? []
  return command.split(' ')
}

/** A file of the page, whose first line names it. */
const fileOf = (name: string): string =>
  page
    .split('```js\n')
    .map((text) => text.split('\n```', 1)[0] ?? '')
    .find((text) => text.startsWith(`// ${name}`)) ?? ''

/** With the types that the generators promise: a field or code of another name does not compile. */
const clients = [
  {
    name: 'openapi-typescript',
    files: [],
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
await client.PUT('/api/v1/wallet/auto-topup', {
  body: { thresholdCents: 500, amountCents: 2_000, monthlyMaxCents: 10_000 },
})
const { data: lines } = await client.POST('/api/v1/plans/{id}/generate', {
  params: { path: { id: order?.planId ?? '' } },
  body: { count: 2 },
})
`,
  },
  {
    name: '@hey-api/openapi-ts',
    files: ['hey-api.config.mjs'],
    program: `
import { client } from './farebox/client.gen.ts'
import { createOrder, generateLines } from './farebox/sdk.gen.ts'

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
    files: ['orval.config.mjs'],
    program: `
import { createOrder, generateLines } from './farebox.ts'

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
    for (const { name, files, program } of clients)
      await t.test(name, async (t) => {
        const folder = await mkdtemp(join(tmpdir(), 'farebox-client-'))
        t.after(() => rm(folder, { recursive: true }))
        await symlink(modules, join(folder, 'node_modules'))
        const ofDocument = (text: string): string =>
          text.replace('$SERVICE', baseUrl).replace('openapi-core.json', `${document}.json`)
        const [command = '', ...args] = commandOf(name).map(ofDocument)
        const written = {
          ...Object.fromEntries(files.map((file) => [file, ofDocument(fileOf(file))])),
          'package.json': '{ "type": "module" }',
          'order.ts': `${program.replace(/\n\n/, `\n${head}`)}${tail}`,
          'tsconfig.json': JSON.stringify({ compilerOptions, include: ['*.ts', 'farebox'] }),
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
        await run(join(generators, command.split('/').at(-1) ?? ''), args)
        await run(join(modules, 'typescript/bin/tsc'), ['-p', '.'])
        assert.match(await run('order.ts', []), /^ord_\w+ 2\n$/)
      })
  })

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { pageOf, pageShell } from '../support/page-shell.ts'
import { emptyDatabase } from '../support/postgres.ts'
import { testApp } from '../support/test-app.ts'

const root = join(import.meta.dirname, '../..')

/** The pages in an order in which their commands work: the log is verified before it is exported. */
const pages = [
  ...['run', 'accounts', 'payments', 'monitoring', 'troubleshooting'].map((name) => `operations/${name}.md`),
  ...['balances', 'verify', 'exports'].map((name) => `finance/${name}.md`),
  ...['backup-and-restore', 'upgrade', 'security', 'eventstoredb'].map((name) => `operations/${name}.md`),
]

/** The commands of a text: `bin/farebox`, and the ways to run it from anywhere, in fenced `sh` blocks and in indented lines, in their order. */
const commandsOf = (text: string): string[] =>
  [...text.matchAll(/^```sh\n([\s\S]*?)^```$|^((?: {4}bin\/farebox .*\n)+)/gm)]
    .flatMap(([, fenced, indented]) => (fenced ?? indented ?? '').split('\n'))
    .map((line) => line.trim())
    .filter((line) => line.includes('bin/farebox') || line.includes('/path/to/farebox'))

const monthMs = 31 * 24 * 60 * 60 * 1000

test('every farebox command of the operations and finance pages runs as printed', async (t) => {
  const [empty, fresh, past] = await Promise.all([1, 2, 3].map(() => emptyDatabase(t)))
  assert.ok(empty && fresh && past)
  const { env, demo, buyer, close } = await testApp(t, { own: true })
  const placed = await buyer.post('/api/v1/orders', { product_id: 'residential-premium', quantity: 5 })
  assert.equal(placed.status, 201)
  await close()

  const thisMonth = new Date().toISOString().slice(0, 7)
  let finToken = ''
  let keyId = ''
  const stand = (line: string): string =>
    line
      .replaceAll('/path/to/farebox', root)
      .replaceAll('postgres://…/empty', empty.url)
      .replaceAll('postgres://…/new', fresh.url)
      .replaceAll('acc_…', demo.buyer.accountId)
      .replaceAll('ord_…', placed.body.orderId)
      .replaceAll('fin_…', finToken)
      .replaceAll('key_…', keyId)
      .replaceAll(/--period 2026-11|periods 2026-11/g, (found) => found.replace('2026-11', thisMonth))
  const shell = await pageShell(t, { env, cwd: env.FAREBOX_DATA })
  const execute = async (line: string, extra: Readonly<Record<string, string>> = {}): Promise<void> => {
    const settings = Object.entries(extra).map(([name, value]) => `export ${name}='${value}'\n`)
    const { stdout } = await shell(settings.join('') + stand(line)).catch((error) =>
      assert.fail(`${line}\n${error.stderr}`),
    )
    finToken = /fin_[0-9a-z]+/.exec(stdout)?.[0] ?? finToken
    keyId = /key_[0-9a-z]+/.exec(stdout)?.[0] ?? keyId
  }
  const operations = pages.flatMap((page) => commandsOf(pageOf(`docs/${page}`)))
  const periods = commandsOf(pageOf('docs/finance/periods.md'))
  assert.ok(operations.length > 45, `${operations.length} commands on the operations pages`)
  assert.ok(periods.length >= 3, `${periods.length} commands on the page on periods`)
  await execute('bin/farebox ledger seal') // a server does it within five minutes
  for (const line of operations)
    await execute(line, line.includes(' demo history ') ? { DATABASE_URL: past.url } : {})
  // The log that was imported on the way has the same seals, and the read tables that its events fold into.
  const imported = { DATABASE_URL: empty.url }
  await execute('bin/farebox projections rebuild all', imported)
  await execute('bin/farebox ledger seal', imported)
  await execute(
    'bin/farebox ledger verify --seals seals-2026-11.json --public-key seal-public.pem | grep -x "nothing is wrong"',
    imported,
  )
  // A month is closed after its end.
  for (const line of periods) await execute(line, { FAREBOX_CLOCK_OFFSET_MS: `${2 * monthMs}` })
})

import assert from 'node:assert/strict'
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { testDatabase } from '../../support/postgres.ts'
import { openLog } from '../eventstore/open-postgres.ts'
import { codec, purse } from './purse.ts'

type Report = {
  readonly name: string
  readonly conflicts: number
  readonly overloads: number
  readonly ms: number
  readonly maxWaitMs: number
}

const start = async (url: string, name: string, count: number, width: number): Promise<ChildProcess> => {
  const child = fork(fileURLToPath(new URL('./storm-process.ts', import.meta.url)), [
    url,
    name,
    `${count}`,
    `${width}`,
  ])
  await once(child, 'message')
  return child
}

const reportOf = async (child: ChildProcess): Promise<Report> => {
  child.send('go')
  const [report] = await once(child, 'message')
  return report
}

test('two processes storm one stream: all commands land once, none starves, none is rejected', async (t) => {
  const { url } = await testDatabase(t)
  const count = 1_500
  const children = await Promise.all(['left', 'right'].map((name) => start(url, name, count, 16)))
  t.after(() => {
    for (const child of children) child.kill()
  })
  const reports = await Promise.all(children.map(reportOf))
  const log = await openLog(url)
  t.after(() => log.close())
  const ids: string[] = []
  for await (const stored of log.readStream(purse('hot')))
    ids.push((codec.decode(stored).data as { id: string }).id)
  assert.equal(ids.length, 2 * count)
  assert.equal(new Set(ids).size, 2 * count)
  t.diagnostic(JSON.stringify(reports))
  assert.ok(
    reports.some(({ conflicts }) => conflicts > 0),
    'they did collide',
  )
  assert.ok(reports.every(({ overloads }) => overloads === 0))
  // They took turns: neither waited for the other to be through.
  const firstHalf = ids.slice(0, count)
  for (const { name } of reports) {
    const share = firstHalf.filter((id) => id.startsWith(name)).length / count
    assert.ok(share > 0.2, `${name} had ${share} of the first half`)
  }
})

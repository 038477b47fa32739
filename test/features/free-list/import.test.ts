import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { dataDirectory } from '../../support/farebox.ts'
import { operate } from '../../support/operator.ts'
import { seededDatabase } from '../../support/seeded.ts'

test('a file is imported by its candidates, and forbidden addresses are refused', async (t) => {
  const env = await seededDatabase(t, await dataDirectory(t))
  const file = `${env.FAREBOX_DATA}/list.txt`
  await writeFile(file, '127.80.9.9:8080\n10.0.0.1:80\n127.0.0.1:80\nno proxy\n127.80.9.9:25\n')
  const importing = async (...args: string[]) =>
    JSON.parse((await operate(['freelist', 'import', file, '--json', ...args], env)).out)
  assert.deepEqual(await importing('--dry-run'), { candidates: 1, refused: 3, unreadable: 1 })
  assert.deepEqual(await importing(), { candidates: 1, refused: 3, unreadable: 1, added: 1, leftOut: 0 })
  assert.deepEqual((await importing()).added, 0)
  const wrong = await operate(['freelist', 'import', file, '--format', 'json', '--json'], env)
  assert.deepEqual([wrong.code, JSON.parse(wrong.out).code], [2, 'invalid_file'])
})

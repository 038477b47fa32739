import assert from 'node:assert/strict'
import { readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileSink, UnwritableFile } from '../../../src/platform/outgoing/file-sink.ts'
import { dataDirectory } from '../../support/farebox.ts'

test('a file that must not be replaced stays, also if it was created meanwhile', async (t) => {
  const directory = await dataDirectory(t)
  const path = join(directory, 'all.backup')
  const sink = await fileSink(path, { replace: false })
  await sink.write('new')
  await writeFile(path, 'of another program')
  await assert.rejects(sink.finish(), UnwritableFile)
  await sink.abandon()
  await assert.rejects(fileSink(path, { replace: false }), /exists: name another file/)
  assert.equal(await readFile(path, 'utf8'), 'of another program')
  await symlink(join(directory, 'nowhere'), join(directory, 'link'))
  await assert.rejects(fileSink(join(directory, 'link'), { replace: false }), UnwritableFile)
  const other = join(directory, 'other.backup')
  const second = await fileSink(other, { replace: false })
  await second.write('new')
  await second.finish()
  assert.equal(await readFile(other, 'utf8'), 'new')
  assert.deepEqual((await readdir(directory)).sort(), ['all.backup', 'link', 'other.backup'])
})

test('only files are replaced', async () => {
  await assert.rejects(fileSink('/dev/null'), /it is no file/)
})

test('a missing folder is named', async (t) => {
  const folder = join(await dataDirectory(t), 'missing')
  await assert.rejects(fileSink(join(folder, 'out.csv')), {
    name: 'UnwritableFile',
    message: `${folder}/out.csv cannot be written: there is no folder ${folder}; make it first`,
  })
})

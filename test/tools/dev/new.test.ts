import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { copyOf, kindNames, root } from './new-copy.ts'

const copied = ['tools/dev', 'test/tools/dev/templates', 'package.json', 'biome.json']

test('every kind of file is created with its names, and imports existing files', async (t) => {
  const { folder, create, read } = copyOf(t, copied)
  for (const kind of kindNames) {
    const { code, err, out, files, steps } = await create(kind, 'accounts/nick-name')
    assert.equal(code, 0, err)
    assert.ok(files.some((file) => file.startsWith('test/')) && files.length >= 2, out)
    assert.match(out, /\n {2}npm test -- test\/\S+\.test\.ts\n$/)
    for (const text of [out, ...files.map(read)]) assert.doesNotMatch(text, /sample/i)
    for (const file of files) {
      const text = read(file)
      assert.match(text, /nick-?name/i, file)
      assert.doesNotThrow(() => stripTypeScriptTypes(text), file)
      for (const [, path = ''] of text.matchAll(/'(\.{1,2}\/[^']+)'/g)) {
        const imported = join(dirname(file), path)
        assert.ok(existsSync(join(folder, imported)) || existsSync(join(root, imported)), `${file}: ${path}`)
      }
    }
    for (const { file, below } of steps) {
      if (below === null) continue
      const lines = readFileSync(join(root, file), 'utf8').split('\n')
      assert.ok(
        lines.some((line) => line.trim().startsWith(below)),
        `${file} has no line ${below}`,
      )
    }
  }
})

test('an existing file is never overwritten, and files that do not exist yet are named', async (t) => {
  const { create, read } = copyOf(t, copied)
  const first = await create('route', 'accounts/nickname')
  assert.equal(first.code, 0, first.err)
  assert.match(
    first.out,
    /^ {2}projections\/nickname\.ts does not exist yet: npm run new -- read-model accounts\/nickname$/m,
  )
  const before = first.files.map(read)
  const second = await create('route', 'accounts/nickname')
  assert.equal(second.code, 2)
  assert.match(
    second.err,
    /^error: src\/features\/accounts\/nickname-routes\.ts exists, so nothing was created/,
  )
  assert.deepEqual(first.files.map(read), before)
})

test('a wrong kind or name is refused with what is accepted', async (t) => {
  const { create } = copyOf(t, copied)
  const { code, err } = await create('evnt', 'accounts/nickname')
  assert.equal(code, 2)
  for (const kind of kindNames) assert.ok(err.includes(`npm run new -- ${kind} accounts/nickname`), err)
  for (const name of ['nickname', 'accounts/nickName', '../nickname']) {
    const { code, err } = await create('event', name)
    assert.equal(code, 2, name)
    assert.match(err, /^error: FOLDER\/NAME must be in lower case, such as accounts\/nickname, not "/, name)
  }
})

test('the help lists every kind with an example', async (t) => {
  const { code, out } = await copyOf(t, copied).create('--help')
  assert.equal(code, 0)
  for (const kind of kindNames) assert.ok(out.includes(`npm run new -- ${kind} accounts/nickname`), out)
})

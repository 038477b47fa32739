import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { copyOf, kindNames, type PrintedStep } from './new-copy.ts'

const withStep = (text: string, { file, place, below, lines }: PrintedStep): string => {
  if (place === 'with the imports') return [...lines, text].join('\n')
  // The routes and pages of the feature are no array yet.
  const [, part] = /^in the array `(\w+)` that `open` returns$/.exec(place) ?? []
  if (part !== undefined) return text.replace(new RegExp(`${part}: (.+),`), `${part}: [...$1, ${lines[0]}],`)
  if (below === null) return text
  const all = text.split('\n')
  const at = all.findIndex((line) => line.trim().startsWith(below))
  assert.ok(at >= 0, `${file} has no line ${below}`)
  return all.toSpliced(at + 1, 0, ...lines).join('\n')
}

test('the created files of every kind pass their tests after the printed lines are added', async (t) => {
  const { folder, run, read, create } = copyOf(t, [
    ...['src', 'projections', 'test', 'tools', 'docs', 'bin', 'package.json', 'biome.json'],
  ])
  const tests: string[] = []
  for (const kind of kindNames) {
    const { code, err, files, steps } = await create(kind, 'accounts/nick-name')
    assert.equal(code, 0, err)
    tests.push(...files.filter((file) => file.startsWith('test/')))
    for (const step of steps.filter(({ file }) => file.endsWith('.ts')))
      writeFileSync(join(folder, step.file), withStep(read(step.file), step))
  }
  assert.equal(tests.length, kindNames.length)
  const { code, out, err } = await run('test/run.ts', ...tests)
  assert.equal(code, 0, `${out}${err}`)
})

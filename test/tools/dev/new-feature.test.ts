import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { copyOf, kindNames, type PrintedStep } from './new-copy.ts'

/** What `open` of the feature returns, for the steps that no line locates. */
const openedBefore = { routes: 'accountRoutes({ reads, db })', pages: 'keyPages({ accounts, pool })' }

const withStep = (text: string, { file, place, below, lines }: PrintedStep): string => {
  if (place === 'with the imports') return [...lines, text].join('\n')
  if (below !== null) {
    const all = text.split('\n')
    const at = all.findIndex((line) => line.trim().startsWith(below))
    assert.ok(at >= 0, `${file} has no line ${below}`)
    return all.toSpliced(at + 1, 0, ...lines).join('\n')
  }
  const [, part = ''] = /^(\w+): \[…/.exec(lines[0] ?? '') ?? []
  const before = openedBefore[part as keyof typeof openedBefore]
  return before === undefined
    ? text
    : text.replace(`${part}: ${before},`, lines.join('\n').replace('…', before))
}

test('the created files of every kind and the printed lines compile, pass lint, and pass their tests', async (t) => {
  const { folder, run, read, create } = copyOf(t, [
    ...['src', 'projections', 'test', 'tools', 'bench', 'docs', 'bin', 'package.json', 'tsconfig.json'],
    ...['biome.json', '.dependency-cruiser.mjs'],
  ])
  const changed = new Set<string>()
  const tests: string[] = []
  for (const kind of kindNames) {
    const { code, err, files, steps } = await create(kind, 'accounts/nick-name')
    assert.equal(code, 0, err)
    for (const file of files) changed.add(file)
    tests.push(...files.filter((file) => file.startsWith('test/')))
    for (const step of steps.filter(({ file }) => file.endsWith('.ts'))) {
      writeFileSync(join(folder, step.file), withStep(read(step.file), step))
      changed.add(step.file)
    }
  }
  const bin = async (name: string, ...args: readonly string[]): Promise<void> => {
    const { code, out, err } = await run(`node_modules/.bin/${name}`, ...args)
    assert.equal(code, 0, `${name}: ${out}${err}`)
  }
  await bin('biome', 'check', '--write', ...changed)
  await bin('tsc', '--noEmit', '--incremental', 'false', '-p', '.')
  await bin('depcruise', '--output-type', 'err-long', 'src', 'projections', 'tools')
  const { code, out, err } = await run('test/run.ts', ...tests)
  assert.equal(code, 0, `${out}${err}`)
})

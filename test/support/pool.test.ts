import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type FileRun, runPool } from '../pool.ts'
import { atEnd } from './cleanup.ts'

/** Runs these files, one after another in one process. */
const runFiles = async (t: TestContext, texts: Readonly<Record<string, string>>, testTimeoutMs = 60_000) => {
  const root = await mkdtemp(join(tmpdir(), 'farebox-pool-'))
  atEnd(t, () => rm(root, { recursive: true }))
  for (const [file, text] of Object.entries(texts))
    await writeFile(join(root, file), `import { test } from 'node:test'\n${text}`)
  const runs: FileRun[] = []
  await runPool({
    root,
    files: Object.keys(texts),
    isAlone: () => false,
    filesAtOnce: 1,
    testTimeoutMs,
    testNamePatterns: [],
    signal: new AbortController().signal,
    onEnded: (run) => runs.push(run),
  })
  return runs.map(({ file, events, problems }) => ({
    file,
    passed: events.flatMap(({ type, data }) => (type === 'test:pass' ? [data.name] : [])),
    failed: events.flatMap(({ type, data }) => (type === 'test:fail' ? [data.name] : [])),
    printed: events.map(({ type, data }) => (type === 'test:stdout' ? data.message : '')).join(''),
    problems: problems.map((text) => text.split('\n')[0]),
  }))
}

test('the files of one process pass and fail by their own tests', async (t) => {
  const runs = await runFiles(t, {
    'passes.mjs': "test('one', () => undefined); test('two', (t) => t.test('three', () => undefined))",
    'fails.mjs':
      "test('one', () => console.log('of one')); test('wrong', () => { throw new Error('wrong') })",
    'after.mjs': "test('four', () => undefined)",
  })
  assert.deepEqual(runs, [
    { file: 'passes.mjs', passed: ['one', 'three', 'two'], failed: [], printed: '', problems: [] },
    { file: 'fails.mjs', passed: ['one'], failed: ['wrong'], printed: 'of one\n', problems: [] },
    { file: 'after.mjs', passed: ['four'], failed: [], printed: '', problems: [] },
  ])
})

test('a file that ends its process, changes it or cannot be loaded fails, and the next file runs', async (t) => {
  const runs = await runFiles(t, {
    'rejects.mjs':
      "test('waits', () => { void Promise.reject(new Error('of no test')); return new Promise(() => setTimeout(() => undefined, 60_000)) })",
    'exits.mjs': "test('ends', () => new Promise(() => setTimeout(process.exit, 50)))",
    'sets.mjs': "test('sets', () => { process.env.FAREBOX_LEFT = 'yes' })",
    'listens.mjs': "test('listens', () => void process.on('SIGUSR2', () => undefined))",
    'throws.mjs': "test('before', () => undefined); throw new Error('not loaded')",
    'after.mjs': "test('four', () => undefined)",
  })
  assert.deepEqual(
    runs.map(({ file, passed, problems }) => [file, passed, problems]),
    [
      ['rejects.mjs', [], ['the process ended too early (SIGTERM), in: waits']],
      ['exits.mjs', [], ['the process ended too early (exit code 0), in: ends']],
      ['sets.mjs', ['sets'], ['the file changed FAREBOX_LEFT from undefined to yes']],
      ['listens.mjs', ['listens'], ['the file changed the listeners of SIGUSR2 from undefined to 1']],
      ['throws.mjs', ['before'], ['Error: not loaded']],
      ['after.mjs', ['four'], []],
    ],
  )
})

test('a file that keeps its process alive after its tests fails', async (t) => {
  const [run] = await runFiles(
    t,
    { 'leaks.mjs': "test('leaks', () => void setInterval(() => undefined, 1))" },
    3_000,
  )
  assert.deepEqual(run?.problems, ['the process ended too early (SIGKILL), in: no test'])
})

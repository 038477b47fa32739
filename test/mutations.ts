import { cpSync, globSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { parseSync } from '@swc/core'
import fc from 'fast-check'
import { affectedTests } from '../tools/dev/affected-tests.ts'
import { readOptions } from '../tools/dev/options.ts'
import { type FileRun, runPool, type TestEvent } from './pool.ts'
import { slowness } from './slow.ts'
import { startRun, startTestServer, usedFolderOf } from './support/postgres-server.ts'

const root = join(import.meta.dirname, '..')
const option = (value: string) => ({ type: 'string', default: value }) as const
const options = { count: option('100'), seed: option('1'), files: option('20') }
const usage = `Usage: npm run test:mutations -- --count 100 --seed 1 --files 20

Changes rules of src/domain in a copy of the project, one at a time, and prints the first test that fails. First the
tests of test/domain run, then the nearest other fast files.`
const { count, seed, files: fileLimit } = readOptions(usage, options).values

type Mutation = Readonly<Record<'file' | 'from' | 'to', string> & Record<'start' | 'end' | 'line', number>>
// biome-ignore lint/suspicious/noExplicitAny: the walk visits every kind of node
type Node = any

const exchanged: Readonly<Record<string, string>> = {
  ...{ '<': '<=', '<=': '<', '>': '>=', '>=': '>', '===': '!==', '!==': '===' },
  ...{ '+': '-', '-': '+', '&&': '||', '||': '&&' },
}
const isText = ({ type }: Node): boolean => /^(?:String|Template)Literal$/.test(type)

const mutationsOf = (file: string): readonly Mutation[] => {
  // swc counts bytes, from 1; latin1 has one character per byte.
  const text = readFileSync(join(root, file), 'latin1')
  const found: Mutation[] = []
  const codes: Node[] = []
  const add = (start: number, end: number, change: (from: string) => string): void => {
    const from = text.slice(start - 1, end - 1)
    const line = text.slice(0, start).split('\n').length
    found.push({ file, line, start: start - 1, end: end - 1, from, to: change(from) })
  }
  const addTest = ({ test: { span }, consequent }: Node, canBeSkipped: boolean): void => {
    add(span.start, span.end, (test) => `!(${test})`)
    if (canBeSkipped && consequent.type === 'ReturnStatement') add(span.start, span.end, () => 'false')
  }
  const addCode = (node: Node): void => {
    if (node?.type === 'TsConstAssertion') addCode(node.expression)
    if (node?.type === 'StringLiteral') codes.push(node)
  }
  const walk = (node: Node): void => {
    if (typeof node !== 'object' || node === null) return
    const { type, operator, left, right } = node
    const other = exchanged[operator]
    if (type === 'BinaryExpression' && other && !isText(left) && !isText(right))
      add(left.span.end, right.span.start, (gap) => gap.replace(operator, other))
    if (type === 'IfStatement' || type === 'ConditionalExpression') addTest(node, type === 'IfStatement')
    if (type === 'KeyValueProperty' && /^(?:code|reason)$/.test(node.key.value)) addCode(node.value)
    if (type === 'CallExpression' && /^refus/.test(node.callee.value)) addCode(node.arguments[0]?.expression)
    for (const child of Object.values(node)) walk(child)
  }
  walk(parseSync(readFileSync(join(root, file), 'utf8'), { syntax: 'typescript' }))
  for (const { value, span } of codes) {
    const other = codes.find((code) => code.value !== value)?.value ?? 'another_code'
    add(span.start, span.end, () => `'${other}'`)
  }
  return found
}

const copy = await mkdtemp(join(tmpdir(), 'farebox-mutations-'))
const isCopied = (path: string): boolean => !/^(?:node_modules|\.git|\.farebox.*)$/.test(basename(path))
cpSync(root, copy, { recursive: true, filter: isCopied })
symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
const server = await startTestServer()
process.env.FAREBOX_TEST_DATABASE_URL = server.url
process.env.NODE_COMPILE_CACHE = join(root, 'node_modules/.cache/farebox-tests')
// The properties have the runs of `npm test`.
process.env.FAREBOX_TEST_SET = 'fast'

type Failure = Pick<FileRun, 'file' | 'events' | 'problems'>

const isOfDomain = (test: string): boolean => test.startsWith('test/domain/')
let runs = 0
/** Runs the files in the copy, with the mutation or without one, until a file fails. */
const failureOf = async (files: readonly string[], mutation?: Mutation): Promise<Failure | undefined> => {
  const path = mutation && join(copy, mutation.file)
  const original = path && readFileSync(path, 'latin1')
  if (mutation)
    writeFileSync(
      path!,
      original!.slice(0, mutation.start) + mutation.to + original!.slice(mutation.end),
      'latin1',
    )
  // A name per run, because the seeded database depends on the code.
  runs += 1
  const run = `${process.pid}x${runs}`
  process.env.FAREBOX_TEST_RUN = run
  const endRun = await startRun(server.url, run)
  const stopping = new AbortController()
  let failed: Failure | undefined
  const fail = (failure: Failure): void => {
    failed ??= failure
    stopping.abort()
  }
  // At the first failed test: the others of its file may wait long for what a mutation prevents.
  const onEvent = (file: string, event: TestEvent): void => {
    if (event.type === 'test:fail') fail({ file, events: [event], problems: [] })
  }
  const onEnded = (ended: FileRun): void => {
    if (ended.problems.length > 0) fail(ended)
  }
  const limits = { testTimeoutMs: 180_000, testNamePatterns: [], isAlone: () => false }
  const filesAtOnce = files.every(isOfDomain) ? 1 : 2
  await runPool({ root: copy, files, filesAtOnce, signal: stopping.signal, onEvent, onEnded, ...limits })
  await endRun()
  await rm(await usedFolderOf(run), { recursive: true, force: true })
  if (path) writeFileSync(path, original!, 'latin1')
  return failed
}

/** Files that pass in the copy without a mutation; those that fail, or that do not fail each time. */
const [passing, unreliable] = [new Set<string>(), new Set<string>()]

/** The first failed file. Outside test/domain it must fail twice with the mutation, and pass without it. */
const findingFile = async (mutation: Mutation, files: readonly string[]): Promise<Failure | undefined> => {
  const failed = await failureOf(
    files.filter((file) => !unreliable.has(file)),
    mutation,
  )
  if (!failed || isOfDomain(failed.file)) return failed
  const again = [failed.file]
  if (!passing.has(failed.file) && !(await failureOf(again))) passing.add(failed.file)
  if (passing.has(failed.file) && (await failureOf(again, mutation))) return failed
  unreliable.add(failed.file)
  return findingFile(mutation, files)
}

const nameOf = ({ file, events, problems }: Failure): string => {
  const test = events.find(({ type, data }) => type === 'test:fail' && data.details?.type !== 'suite')
  return `${file}: ${test?.data.name?.replace(join(copy, file), 'cannot be loaded') ?? problems[0]}`
}

/** Prints the mutations and the tests that find them; returns the others. */
const survivorsOf = async (mutations: readonly Mutation[], testsOf: (file: string) => readonly string[]) => {
  const survivors: Mutation[] = []
  for (const mutation of mutations) {
    const { file, line, from, to } = mutation
    const found = await findingFile(mutation, testsOf(file))
    if (!found) survivors.push(mutation)
    const change = `\`${from.trim()}\` to \`${to.trim()}\``.replaceAll(/\s+/g, ' ').replaceAll('|', '\\|')
    process.stdout.write(`| ${file}:${line} | ${change} | ${found ? nameOf(found) : 'none of these'} |\n`)
  }
  process.stdout.write(`${survivors.length} of ${mutations.length} survived\n\n`)
  return survivors
}

const all = globSync('src/domain/**/*.ts', { cwd: root }).sort().flatMap(mutationsOf)
const subarray = fc.shuffledSubarray(all, { minLength: Number(count), maxLength: Number(count) })
const [sample = []] = fc.sample(subarray, { seed: Number(seed), numRuns: 1 })
process.stdout.write(`${all.length} mutations are possible\n`)
const left = await survivorsOf(sample, (file) => affectedTests([file]).filter(isOfDomain))
await survivorsOf(left, (file) => {
  const others = affectedTests([file]).filter((test) => !isOfDomain(test) && slowness(test) === 0)
  // The tests of the feature with the same name find more than others that are as near.
  const isOfArea = (test: string): boolean => test.startsWith(`test/features/${file.split('/')[2]}/`)
  const ordered = [...others.filter(isOfArea), ...others.filter((test) => !isOfArea(test))]
  return ordered.slice(0, Number(fileLimit))
})
await server.stop()
await rm(copy, { recursive: true, force: true })

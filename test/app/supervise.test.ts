import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { type Supervised, supervise } from '../../src/app/supervise.ts'
import { createLogger } from '../../src/platform/http/logging.ts'
import { atEnd } from '../support/cleanup.ts'
import { until } from '../support/until.ts'

const say = "process.send({ worker: 'w' });"

test('a worker that ends repeatedly is a problem, whether or not it ran before; a running one is not', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'farebox-supervise-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const run = (name: string, code: string): Supervised => {
    const entry = join(folder, `${name}.mjs`)
    writeFileSync(entry, code)
    const supervised = supervise({
      entry,
      count: 1,
      env: process.env,
      flags: [],
      name,
      graceMs: 1_000,
      logger: createLogger('silent'),
    })
    atEnd(t, () => supervised.close())
    return supervised
  }
  const steady = run('steady', `${say} setInterval(() => {}, 1000)`)
  const failing = run('failing', 'process.exit(1)')
  const looping = run('looping', `${say} setTimeout(() => process.exit(1), 20)`)
  const refusing = run('refusing', 'process.exit(3)')
  assert.equal(steady.problem(), 'steady has not begun yet')
  await steady.ready
  assert.equal(steady.problem(), null)
  let begun = false
  void failing.ready.then(() => {
    begun = true
  })
  await looping.ready
  await assert.rejects(refusing.ready, /refused to start/)
  await until(() => looping.problem() !== null)
  assert.match(looping.problem()!, /^looping ended \d times in a row$/)
  assert.equal(failing.problem(), 'failing has not begun yet')
  assert.equal(begun, false)
})

test('a worker that ends by itself while the service stops is neither restarted nor reported', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'farebox-supervise-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const entry = join(folder, 'worker.mjs')
  writeFileSync(entry, `${say} process.once('disconnect', () => process.exit()); setInterval(() => {}, 1000)`)
  const lines: Record<string, unknown>[] = []
  const logger = createLogger('info', { write: (line) => void lines.push(JSON.parse(line)) })
  const parts = { entry, count: 1, env: process.env, flags: [], name: 'the worker', graceMs: 1_000, logger }
  const pids = () => lines.flatMap(({ pid }) => (typeof pid === 'number' ? [pid] : []))
  const supervised = supervise(parts)
  atEnd(t, () => supervised.close())
  await supervised.ready
  process.kill(pids()[0]!, 'SIGINT')
  await until(() => pids().length === 2, { what: 'the restart' })
  assert.deepEqual(
    lines.filter(({ signal }) => signal !== undefined).map(({ msg, signal }) => [msg, signal]),
    [['the worker ended and is started again', 'SIGINT']],
  )
  supervised.endRestarts()
  const count = lines.length
  process.kill(pids()[1]!, 'SIGINT')
  await supervised.close()
  assert.equal(lines.length, count)
})

test('a worker that hangs is a problem after ten pings, and after twenty it is killed and started again', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const folder = mkdtempSync(join(tmpdir(), 'farebox-supervise-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const entry = join(folder, 'worker.mjs')
  const supervisor = join(import.meta.dirname, '../../src/app/supervise.ts')
  writeFileSync(entry, `import { answerPings } from ${JSON.stringify(supervisor)}; answerPings(); ${say}`)
  const lines: Record<string, unknown>[] = []
  const logger = createLogger('info', { write: (line) => void lines.push(JSON.parse(line)) })
  const pids = () => lines.flatMap(({ msg, pid }) => (msg === 'the worker is ready' ? [Number(pid)] : []))
  const parts = { entry, count: 1, env: process.env, name: 'the worker', graceMs: 1_000, logger }
  const supervised = supervise(parts)
  atEnd(t, () => supervised.close())
  const ping = (count: number) => t.mock.timers.tick(count * 1_000)
  await supervised.ready
  ping(11)
  assert.equal(supervised.problem(), 'the worker does not answer')
  await until(() => supervised.problem() === null, { what: 'the answers of a worker that only was slow' })
  process.kill(pids()[0]!, 'SIGSTOP')
  ping(10)
  assert.equal(supervised.problem(), null)
  ping(1)
  assert.equal(supervised.problem(), 'the worker does not answer')
  assert.equal(pids().length, 1)
  ping(10)
  await until(() => pids().length === 2, { what: 'the restart', timeoutMs: 20_000 })
  assert.equal(supervised.problem(), null)
  ping(1)
  assert.notEqual(pids()[0], pids()[1])
})

test('a restarted worker that freezes before it is ready is a problem, then killed; a slow one is not killed', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const folder = mkdtempSync(join(tmpdir(), 'farebox-supervise-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const entry = join(folder, 'worker.mjs')
  const supervisor = join(import.meta.dirname, '../../src/app/supervise.ts')
  const path = (name: string) => join(folder, name)
  writeFileSync(
    entry,
    `import { appendFileSync, existsSync, writeFileSync } from 'node:fs'
    import { answerPings } from ${JSON.stringify(supervisor)}
    if (existsSync(${JSON.stringify(path('freeze'))})) {
      writeFileSync(${JSON.stringify(path('frozen'))}, '')
      process.kill(process.pid, 'SIGSTOP')
    }
    answerPings()
    process.on('message', () => appendFileSync(${JSON.stringify(path('pings'))}, '.'))
    const timer = setInterval(() => {
      if (existsSync(${JSON.stringify(path('slow'))})) return
      ${say}
      clearInterval(timer)
    }, 10)
    writeFileSync(${JSON.stringify(path('runs'))}, String(process.pid))`,
  )
  const lines: Record<string, unknown>[] = []
  const logger = createLogger('info', { write: (line) => void lines.push(JSON.parse(line)) })
  const isLogged = (text: string) => lines.some(({ msg }) => msg === text)
  const parts = { entry, count: 1, env: process.env, name: 'the worker', graceMs: 1_000, logger }
  const supervised = supervise(parts)
  atEnd(t, () => supervised.close())
  await supervised.ready
  const ping = (count: number) => t.mock.timers.tick(count * 1_000)
  const running = () => Number(readFileSync(path('runs'), 'utf8'))
  const ended = (count: number) =>
    until(() => lines.filter(({ msg }) => msg === 'the worker ended and is started again').length === count, {
      timeoutMs: 20_000,
    })
  const late = 'the worker ended and does not become ready again'

  writeFileSync(path('slow'), '')
  process.kill(running(), 'SIGKILL')
  await ended(1)
  const first = running()
  await until(() => running() !== first, { timeoutMs: 20_000 })
  writeFileSync(path('pings'), '')
  for (let sent = 60; sent <= 240; sent += 60) {
    ping(60)
    await until(() => readFileSync(path('pings')).length === sent, { what: `the answers of ${sent} pings` })
    assert.equal(supervised.problem(), late)
  }
  assert.equal(isLogged('the worker does not answer and is killed'), false)
  rmSync(path('slow'))
  await until(() => supervised.problem() === null, { what: 'the ready worker' })

  writeFileSync(path('freeze'), '')
  process.kill(running(), 'SIGKILL')
  await ended(2)
  ping(30)
  assert.equal(supervised.problem(), null)
  ping(1)
  assert.equal(supervised.problem(), late)
  await until(() => existsSync(path('frozen')), { timeoutMs: 20_000 })
  rmSync(path('freeze'))
  ping(121)
  await ended(3)
  assert.ok(isLogged('the worker does not answer and is killed'))
  // It is ready again: only the number of its ends is reported.
  await until(() => supervised.problem() === 'the worker ended 3 times in a row')
})

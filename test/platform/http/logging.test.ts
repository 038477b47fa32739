import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { LogUnavailable } from '../../../src/platform/eventstore/errors.ts'
import { createLogger, prettyLine } from '../../../src/platform/http/logging.ts'
import { atEnd } from '../../support/cleanup.ts'
import { until } from '../../support/until.ts'
import { sampleServer } from './sample.ts'

const logging = join(import.meta.dirname, '../../../src/platform/http/logging.ts')

const recorded = () => {
  const lines: string[] = []
  return { lines, logger: createLogger('trace', { write: (line) => void lines.push(line) }) }
}

describe('The log', () => {
  test('has one line for each request: id, method, template, status, account and key id', async (t) => {
    const { lines, logger } = recorded()
    const { client } = await sampleServer(t, { logger })
    await client.get('/api/v1/orders/ord_1', {
      key: 'buyer-key',
      headers: { 'x-request-id': 'r-1' },
    })
    const [line] = await until(() => (lines.length > 0 ? lines : null))
    const { time, ms, level, ...rest } = JSON.parse(line!)
    assert.match(time, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
    assert.equal(typeof ms, 'number')
    assert.equal(level, 30)
    assert.deepEqual(rest, {
      requestId: 'r-1',
      method: 'GET',
      route: '/api/v1/orders/{id}',
      status: 200,
      accountId: 'acc_buyer',
      keyId: 'key_buyer',
      msg: 'request',
    })
  })

  test('never contains a key, a body, a query or an e-mail', async (t) => {
    const { lines, logger } = recorded()
    const { client } = await sampleServer(t, { logger })
    const secret = 'fbx_thisMustNotBeLogged'
    await client.get(`/api/v1/me?key=${secret}`, { key: secret })
    await client.get('/api/v1/me', { headers: { authorization: `Bearer ${secret}` } })
    await client.get(`/nowhere/${secret}`)
    await client.post('/api/v1/orders', { product_id: secret, quantity: secret }, { key: 'buyer-key' })
    await until(() => lines.length === 4)
    assert.ok(!lines.join('').includes(secret))
    assert.ok(!lines.join('').includes('@example.com'))
  })

  test('reports an outage without a stack, and a bug with one', () => {
    const { lines, logger } = recorded()
    logger.error({ err: new LogUnavailable('the log is away') }, 'an append failed')
    logger.error({ err: new TypeError('x is undefined') }, 'a handler failed')
    const [outage, bug] = lines.map((line) => JSON.parse(line).err)
    assert.deepEqual(outage, { type: 'LogUnavailable', message: 'the log is away', name: 'LogUnavailable' })
    assert.match(bug.stack, /^TypeError: x is undefined\n +at /)
    assert.equal(prettyLine(lines[0]!).trimEnd().split('\n').length, 1)
    assert.match(prettyLine(lines[0]!), /err="the log is away"/)
    assert.match(prettyLine(lines[1]!), /\n +at /)
  })

  test('has the texts and figures of an error, and no object or secret that a library attached', () => {
    const { lines, logger } = recorded()
    const broken = () =>
      Object.assign(new Error('Connection terminated unexpectedly'), {
        code: 'ECONNRESET',
        errno: -104,
        client: { processID: 4711, secretKey: 195_948_557, connectionParameters: { user: 'farebox' } },
        end: () => undefined,
        token: 'fbx_secret',
        input: 'postgres://farebox:farebox@db/farebox',
      })
    logger.warn({ err: broken() }, 'a connection broke')
    logger.error({ err: new AggregateError([broken()], 'all failed') }, 'a bug')
    const [{ err }, { err: all }] = lines.map((line) => JSON.parse(line)) as [never, never] as [
      { err: Record<string, unknown> },
      { err: Record<string, unknown> & { aggregateErrors: readonly object[] } },
    ]
    const fields = { type: 'Error', message: broken().message, code: 'ECONNRESET', errno: -104 }
    assert.deepEqual(err, fields)
    assert.deepEqual(all.aggregateErrors, [fields])
  })

  test('redacts secrets that a module passes by mistake', () => {
    const { lines, logger } = recorded()
    logger.info(
      {
        key: 'fbx_1',
        headers: { 'x-api-key': 'fbx_2', authorization: 'fbx_3' },
        a: { b: { password: 'fbx_4' } },
      },
      'x',
    )
    assert.ok(!lines.join('').includes('fbx_'))
    assert.match(lines.join(''), /\[redacted\]/)
  })
})

describe('A continuing problem', () => {
  const troubled = () => {
    const lines: string[] = []
    const at = { nowMs: 0 }
    const logger = createLogger('trace', { write: (line) => void lines.push(line) }, () => at.nowMs)
    const logged = () => lines.map((line) => JSON.parse(line))
    return { at, logger, logged }
  }
  const away = () => new Error('connect ECONNREFUSED')

  test('is logged at once, then once a minute with the number of omitted lines', () => {
    const { at, logger, logged } = troubled()
    for (const nowMs of [0, 1_000, 59_999, 60_000, 60_001, 120_000]) {
      at.nowMs = nowMs
      logger.error({ err: away(), reactor: 'expiry', failures: nowMs }, 'a reactor failed')
    }
    assert.deepEqual(
      logged().map(({ failures, leftOut }) => [failures, leftOut]),
      [
        [0, undefined],
        [60_000, 2],
        [120_000, 1],
      ],
    )
  })

  test('hides no other: not of another error, order or module, nor a worse level', () => {
    const { logger, logged } = troubled()
    const lines = [
      () => logger.warn({ err: away() }, 'failed'),
      () => logger.warn({ err: new Error('disk full') }, 'failed'),
      () => logger.warn({ err: away() }, 'failed elsewhere'),
      () => logger.warn({ err: away(), orderId: 'ord_1' }, 'failed'),
      () => logger.warn({ err: away(), orderId: 'ord_2' }, 'failed'),
      () => logger.child({ orderId: 'ord_3' }).warn({ err: away() }, 'failed'),
      () => logger.error({ err: away() }, 'failed'),
    ]
    for (const write of lines) write()
    for (const write of lines) write()
    assert.equal(logged().length, lines.length)
  })

  for (const [what, error, name] of [
    ['the log', new LogUnavailable('EventStoreDB cannot be reached: connect ECONNREFUSED'), 'log'],
    ['the database', Object.assign(away(), { code: 'ECONNREFUSED' }), 'database'],
  ] as const)
    test(`is one for all requests that it affects: ${what} that is down is named, and logged once with their number`, async (t) => {
      const { at, logger, logged } = troubled()
      const directory = { byKey: () => Promise.reject(error) }
      const { client } = await sampleServer(t, { logger, directory })
      for (const nowMs of [0, 1, 2, 60_000]) {
        at.nowMs = nowMs
        const { status, body } = await client.get('/api/v1/me', { key: 'buyer-key' })
        assert.deepEqual([status, body.error], [503, `the service cannot reach its ${name}; try again`])
      }
      const lines = await until(() => (logged().length === 6 ? logged() : null))
      assert.deepEqual(
        lines.filter(({ err }) => err).map(({ msg, err, leftOut }) => [msg, err.message, leftOut]),
        [
          [`the ${name} does not answer`, error.message, undefined],
          [`the ${name} does not answer`, error.message, 2],
        ],
      )
    })

  test('is logged once a minute if it is a bug: with the id of its first request', async (t) => {
    const { at, logger, logged } = troubled()
    const directory = { byKey: () => Promise.reject(new Error(`no such column: c${at.nowMs}`)) }
    const { baseUrl } = await sampleServer(t, { logger, directory })
    const ids: string[] = []
    for (const nowMs of [0, 1, 60_000]) {
      at.nowMs = nowMs
      const answer = await fetch(`${baseUrl}/api/v1/me`, { headers: { 'x-api-key': 'buyer-key' } })
      ids.push(((await answer.json()) as { requestId: string }).requestId)
    }
    const lines = await until(() => (logged().length === 5 ? logged() : null))
    assert.deepEqual(
      lines.filter(({ err }) => err).map(({ requestId, leftOut }) => [requestId, leftOut]),
      [
        [ids[0], undefined],
        [ids[2], 1],
      ],
    )
    // Each request has its line, by which its id is found.
    assert.deepEqual(
      lines.filter(({ msg }) => msg === 'request').map(({ requestId }) => requestId),
      ids,
    )
  })

  test('is one for all streams and items that an outage affects', () => {
    const { logger, logged } = troubled()
    for (const item of ['a', 'b', 'c'])
      logger.error({ err: new LogUnavailable(`append to order-${item}: terminated`), item }, 'an item failed')
    assert.equal(logged().length, 1)
  })

  test('is always logged when it ends the process, and so is a line without an error', () => {
    const { logger, logged } = troubled()
    for (const _ of [1, 2]) {
      logger.fatal({ err: away() }, 'cannot go on')
      logger.warn({ reactor: 'expiry' }, 'late')
      logger.info('stopping')
    }
    assert.equal(logged().length, 6)
  })

  test('does not keep a process from ending after the reader of the log has ended', async (t) => {
    const program = `
      const { createLogger, standardErrorLog } = await import(${JSON.stringify(logging)})
      const log = standardErrorLog()
      const logger = createLogger('info', log.destination)
      logger.info('ready')
      process.stdin.once('data', async () => {
        logger.info('a line')
        logger.info('the last line')
        await log.flush()
        process.exit(7)
      })`
    const run = () => {
      const child = spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: 'pipe' })
      atEnd(t, () => child.kill('SIGKILL'))
      return { child, ended: once(child, 'close') }
    }
    const closed = run()
    await once(closed.child.stderr, 'data')
    closed.child.stderr.destroy()
    closed.child.stdin.write('end')
    assert.deepEqual(await closed.ended, [7, null])

    const open = run()
    let text = ''
    open.child.stderr.on('data', (chunk) => {
      text += chunk
    })
    await until(() => text.includes('ready'))
    open.child.stdin.write('end')
    assert.deepEqual(await open.ended, [7, null])
    assert.match(text, /the last line/)
  })
})

test('a log line for people has the time, the level, the text and the values; an error has its stack', () => {
  const line = (fields: object): string =>
    prettyLine(JSON.stringify({ level: 40, time: '2026-11-24T12:03:04.567Z', ...fields, msg: 'it waits' }))
  assert.equal(
    line({ group: 'hot', reason: 'not yet', models: ['a'] }),
    '12:03:04 warn  it waits  group=hot  reason="not yet"  models=["a"]\n',
  )
  const err = { type: 'Error', message: 'it broke', stack: 'Error: it broke\n    at here' }
  assert.equal(line({ err }), '12:03:04 warn  it waits  err="it broke"\n')
  assert.equal(
    line({ level: 50, err }),
    '12:03:04 error it waits  err="it broke"\nError: it broke\n    at here\n',
  )
})

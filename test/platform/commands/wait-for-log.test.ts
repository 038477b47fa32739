import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CommandOverload, type CommandRunner } from '../../../src/platform/commands/command.ts'
import { createLogWait, LogUnreachable } from '../../../src/platform/commands/wait-for-log.ts'
import { LogUnavailable } from '../../../src/platform/eventstore/errors.ts'
import type { EventLog } from '../../../src/platform/eventstore/port.ts'
import { createMemoryLog } from '../../support/memory-log.ts'
import { freshStream, someEvents } from '../eventstore/contract/events.ts'

/** Every read of the log fails once, and a stream breaks after each of its events. */
const shaky = (log: EventLog): EventLog => {
  const failed = new Set<string>()
  const failOnce = (name: string): void => {
    if (failed.has(name)) return
    failed.add(name)
    throw new LogUnavailable(`no leader for ${name}`)
  }
  const once =
    <Args extends unknown[], Value>(name: string, read: (...args: Args) => Promise<Value>) =>
    async (...args: Args) => {
      failOnce(name)
      return await read(...args)
    }
  return {
    ...log,
    logId: once('logId', log.logId),
    head: once('head', log.head),
    lastOf: once('lastOf', log.lastOf),
    readAll: once('readAll', log.readAll),
    readBefore: once('readBefore', log.readBefore),
    eventAt: once('eventAt', log.eventAt),
    readStreams: once('readStreams', log.readStreams),
    async *readStream(stream, from = 0) {
      for await (const event of log.readStream(stream, from)) {
        failOnce(`event ${event.revision}`)
        yield event
      }
    },
  }
}

test('every read of a start waits for the log, and a stream is read on from the interruption', async () => {
  const whole = createMemoryLog()
  const stream = freshStream()
  const { position } = await whole.append(stream, 'noStream', someEvents(3))
  const reasons: string[] = []
  const patience = createLogWait({
    withinMs: 20_000,
    where: 'esdb://a:1,b:2',
    onWait: (reason) => reasons.push(reason),
  })
  const log = patience.log(shaky(whole))
  const [logId, head, last, all, before, at, tails] = await Promise.all([
    log.logId(),
    log.head(),
    log.lastOf(stream),
    log.readAll(0, 10),
    log.readBefore(position, 10),
    log.eventAt(position),
    log.readStreams([{ stream, from: 1 }]),
  ])
  assert.equal(logId, await whole.logId())
  assert.equal(head, position)
  assert.equal(last?.revision, 2)
  assert.equal(all.length, 3)
  assert.equal(before.length, 2)
  assert.equal(at?.position, position)
  assert.equal(tails.get(stream)?.length, 2)
  const revisions: number[] = []
  for await (const { revision } of log.readStream(stream)) revisions.push(revision)
  assert.deepEqual(revisions, [0, 1, 2])
  assert.deepEqual(reasons, ['no leader for logId'])
})

test('a start that waited without success reports the address, the time and the reason', async () => {
  const broken = async (): Promise<never> => {
    throw new LogUnavailable('no leader')
  }
  const patience = createLogWait({ withinMs: 400, where: 'esdb://a:1,b:2' })
  await assert.rejects(patience.log({ ...createMemoryLog(), head: broken }).head(), (error) => {
    // Requests that meet it are answered as in any outage of the log.
    assert.ok(error instanceof LogUnreachable && error instanceof LogUnavailable)
    assert.match(error.message, /^the log at esdb:\/\/a:1,b:2 gave no answer within 0 s \(no leader\)/)
    return true
  })
})

test('a start does not wait for a bug, and after the start it waits for no outage', async () => {
  const patience = createLogWait({ withinMs: 60_000, where: 'esdb://a:1' })
  const failing = (error: Error) =>
    patience.log({
      ...createMemoryLog(),
      head: async () => {
        throw error
      },
    })
  await assert.rejects(failing(new TypeError('a bug')).head(), TypeError)
  patience.end()
  await assert.rejects(failing(new LogUnavailable('no leader')).head(), /^LogUnavailable: no leader$/)
})

test('a command of the start is repeated until the log accepts it', async () => {
  let times = 0
  const runner = {
    run: async () => {
      times += 1
      if (times < 3) throw new CommandOverload('the log cannot be reached', 1)
      return { answer: 'done', position: 1 }
    },
    close: async () => undefined,
  } as unknown as CommandRunner
  const patience = createLogWait({ withinMs: 20_000, where: 'esdb://a:1' })
  const { answer } = await patience.runner(runner).run({} as never)
  assert.equal(answer, 'done')
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AppendItem, ItemOutcome } from '../../../../src/platform/eventstore/port.ts'
import { freshStream, someEvent, someEvents, streamOf, written } from './events.ts'
import type { LogTraits, OpenLog } from './under-test.ts'

const landed = (outcome: ItemOutcome | undefined) => {
  assert.equal(outcome?.status, 'landed')
  return (outcome as Extract<ItemOutcome, { status: 'landed' }>).appended
}

const conflicted = (outcome: ItemOutcome | undefined) => {
  assert.equal(outcome?.status, 'conflict')
  return outcome as Extract<ItemOutcome, { status: 'conflict' }>
}

export const itemContract = (openLog: OpenLog, traits: LogTraits): void => {
  test('an item over several streams lands in the order in which it is written', async (t) => {
    const { log } = await openLog(t)
    const [ledger, stock, order] = [freshStream(), freshStream(), freshStream()]
    await log.append(ledger, 'noStream', someEvents(2))
    const appends = [
      { stream: ledger, expected: 1, events: someEvents(1) },
      { stream: stock, expected: 'noStream', events: someEvents(2) },
      { stream: order, expected: 'noStream', events: someEvents(1) },
      { stream: order, expected: 0, events: someEvents(2) },
    ] as const
    const [outcome] = await log.appendAll([{ appends }])
    const appended = landed(outcome)
    assert.deepEqual(
      appended.map((each) => each.revision),
      [2, 1, 0, 2],
    )
    const positions = appended.map((each) => each.position)
    assert.deepEqual(
      positions,
      positions.toSorted((a, b) => a - b),
    )
    assert.deepEqual(
      (await streamOf(log, order)).map(written),
      appends.slice(2).flatMap((append) => append.events),
    )
    assert.deepEqual(
      (await streamOf(log, stock)).map((event) => event.position <= positions[1]!),
      [true, true],
    )
  })

  test('a conflicting item leaves its neighbours alone, and outcomes come in the order given', async (t) => {
    const { log } = await openLog(t)
    const taken = freshStream()
    await log.append(taken, 'noStream', someEvents(3))
    const fresh = [freshStream(), freshStream(), freshStream(), freshStream()]
    const item = (index: number): AppendItem => ({
      appends: [{ stream: fresh[index]!, expected: 'noStream', events: someEvents(index + 1) }],
    })
    const outcomes = await log.appendAll([
      item(0),
      { appends: [{ stream: taken, expected: 'noStream', events: [someEvent()] }] },
      item(1),
      { appends: [{ stream: fresh[3]!, expected: 7, events: [someEvent()] }] },
      item(2),
    ])
    assert.deepEqual(
      outcomes.map((outcome) => outcome.status),
      ['landed', 'conflict', 'landed', 'conflict', 'landed'],
    )
    assert.deepEqual(
      [outcomes[0], outcomes[2], outcomes[4]].map((outcome) => landed(outcome)[0]!.revision),
      [0, 1, 2],
    )
    assert.deepEqual(conflicted(outcomes[1]), { status: 'conflict', stream: taken, actual: 2, landed: [] })
    assert.deepEqual(conflicted(outcomes[3]), {
      status: 'conflict',
      stream: fresh[3],
      actual: 'noStream',
      landed: [],
    })
    assert.equal((await streamOf(log, taken)).length, 3)
    assert.equal(await log.lastOf(fresh[3]!), null)
  })

  test('an item that conflicts at its second stream reports truthfully what of it stands', async (t) => {
    const { log } = await openLog(t)
    const [first, second, third] = [freshStream(), freshStream(), freshStream()]
    await log.append(second, 'noStream', someEvents(1))
    const [outcome] = await log.appendAll([
      {
        appends: [
          { stream: first, expected: 'noStream', events: someEvents(2) },
          { stream: second, expected: 'noStream', events: someEvents(1) },
          { stream: third, expected: 'noStream', events: someEvents(1) },
        ],
      },
    ])
    const conflict = conflicted(outcome)
    assert.equal(conflict.stream, second)
    assert.equal(conflict.actual, 0)
    const standing = await log.lastOf(first)
    assert.deepEqual(conflict.landed, standing === null ? [] : [standing])
    if (traits.atomicItems) assert.equal(standing, null)
    assert.equal(await log.lastOf(third), null)
    assert.equal((await streamOf(log, second)).length, 1)
  })

  test('an item that is sent again gives its first outcome, from any connection, also when its streams went on', async (t) => {
    const { log, reopen } = await openLog(t)
    const [left, right] = [freshStream(), freshStream()]
    const item: AppendItem = {
      appends: [
        { stream: left, expected: 'noStream', events: someEvents(2) },
        { stream: right, expected: 'noStream', events: someEvents(1) },
        { stream: left, expected: 1, events: someEvents(2) },
      ],
    }
    const [first] = await log.appendAll([item])
    landed(first)
    await log.append(right, 0, someEvents(1))
    const unrelated: AppendItem = {
      appends: [{ stream: freshStream(), expected: 'noStream', events: someEvents(1) }],
    }
    for (const each of [log, await reopen()]) {
      const [again] = await each.appendAll([item, unrelated])
      assert.deepEqual(again, first)
    }
    assert.equal((await streamOf(log, left)).length, 4)
    assert.equal((await streamOf(log, right)).length, 2)
  })

  test('an item of which a prefix stands is completed when it is sent again', async (t) => {
    const { log } = await openLog(t)
    const [left, right] = [freshStream(), freshStream()]
    const appends = [
      { stream: left, expected: 'noStream', events: someEvents(2) },
      { stream: right, expected: 'noStream', events: someEvents(1) },
      { stream: left, expected: 1, events: someEvents(1) },
    ] as const
    const prefix = await log.append(left, 'noStream', appends[0].events)
    const [outcome] = await log.appendAll([{ appends }])
    const appended = landed(outcome)
    assert.deepEqual(appended[0], prefix)
    assert.deepEqual(
      appended.map((each) => each.revision),
      [1, 0, 2],
    )
    assert.deepEqual(
      (await streamOf(log, left)).map((event) => event.id),
      [...appends[0].events, ...appends[2].events].map((event) => event.id),
    )
  })

  test('more items than one batch holds all land, with their outcomes in order', async (t) => {
    const { log } = await openLog(t)
    const items = Array.from(
      { length: 1_000 },
      (_, index): AppendItem => ({
        appends: [{ stream: freshStream(), expected: 'noStream', events: someEvents(1 + (index % 3)) }],
      }),
    )
    const outcomes = await log.appendAll(items)
    assert.deepEqual(
      outcomes.map((outcome) => landed(outcome)[0]!.revision),
      items.map((_, index) => index % 3),
    )
  })

  test('calls that arrive together keep the order of each stream', async (t) => {
    const { log } = await openLog(t)
    const [hot, cold] = [freshStream(), freshStream()]
    const appended = await Promise.all(
      Array.from({ length: 300 }, (_, index) =>
        index % 3 === 2
          ? log.append(freshStream(), 'noStream', someEvents(1))
          : log.append(
              index % 3 === 0 ? hot : cold,
              index < 3 ? 'noStream' : Math.floor(index / 3) - 1,
              someEvents(1),
            ),
      ),
    )
    assert.deepEqual(
      appended.filter((_, index) => index % 3 === 0).map((each) => each.revision),
      Array.from({ length: 100 }, (_, index) => index),
    )
    assert.equal((await log.lastOf(hot))!.revision, 99)
    assert.equal((await log.lastOf(cold))!.revision, 99)
  })

  test('items of one call that share a stream, or an item that does not follow itself, are a bug and throw', async (t) => {
    const { log } = await openLog(t)
    const stream = freshStream()
    const item = (): AppendItem => ({ appends: [{ stream, expected: 'noStream', events: someEvents(1) }] })
    await assert.rejects(log.appendAll([item(), item()]), /share the stream/)
    await assert.rejects(
      log.appendAll([
        {
          appends: [
            { stream, expected: 'noStream', events: someEvents(2) },
            { stream, expected: 0, events: someEvents(1) },
          ],
        },
      ]),
      /does not follow/,
    )
    assert.equal(await log.lastOf(stream), null)
  })

  test('no items give no outcomes', async (t) => {
    const { log } = await openLog(t)
    assert.deepEqual(await log.appendAll([]), [])
  })
}

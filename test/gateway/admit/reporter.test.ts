import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createReporter } from '../../../src/gateway/admit/reporter.ts'

/** Counts batches as `work.traffic_reporters` does. */
const countedBatches = () => {
  const sequences = new Map<string, number>()
  const counted: string[] = []
  return {
    sequences,
    counted,
    count: (batch: string) => async (reporter: string, sequence: number) => {
      if ((sequences.get(reporter) ?? -1) >= sequence) return false
      sequences.set(reporter, sequence)
      counted.push(batch)
      return true
    },
  }
}

test('a batch that is sent again after an unknown outcome is counted once', async () => {
  const { count, counted } = countedBatches()
  const reporter = createReporter({ name: 'gateway', onRefused: assert.fail })
  reporter.nextBatch()
  const lost = async (...batch: Parameters<ReturnType<typeof count>>): Promise<boolean> => {
    await count('first')(...batch)
    throw new Error('the answer is lost')
  }
  await assert.rejects(reporter.send(lost), /lost/)
  await reporter.send(count('first'))
  reporter.nextBatch()
  await reporter.send(count('second'))
  assert.deepEqual(counted, ['first', 'second'])
})

test('a batch that is sent twice at the same time is counted once', async () => {
  const { count, counted } = countedBatches()
  const reporter = createReporter({ name: 'gateway', onRefused: assert.fail })
  reporter.nextBatch()
  const answers = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const sends = answers.map(({ promise }) =>
    reporter.send(async (...batch) => {
      await promise
      return count('first')(...batch)
    }),
  )
  // The second one is the first to arrive.
  answers[1]?.resolve()
  await new Promise(setImmediate)
  answers[0]?.resolve()
  await Promise.all(sends)
  assert.deepEqual(counted, ['first'])
})

test('a batch that is refused although it is new is counted under another name, and so are later ones', async () => {
  const { count, counted, sequences } = countedBatches()
  const refusals: string[] = []
  const reporter = createReporter({
    name: 'gateway',
    onRefused: ({ message }) => void refusals.push(message),
  })
  reporter.nextBatch()
  await reporter.send(count('first'))
  sequences.set('gateway', 9e15)
  for (const batch of ['second', 'third']) {
    reporter.nextBatch()
    await reporter.send(count(batch))
  }
  assert.deepEqual(counted, ['first', 'second', 'third'])
  assert.deepEqual(refusals, [
    'work.traffic_reporters was changed: it has batch 2 of gateway, which was never sent',
  ])
})

test('a batch is counted once if its outcome under another name is unknown, too', async () => {
  const { count, counted, sequences } = countedBatches()
  const refusals: Error[] = []
  const reporter = createReporter({ name: 'gateway', onRefused: (error) => void refusals.push(error) })
  sequences.set('gateway', 9e15)
  reporter.nextBatch()
  const lost = async (...batch: Parameters<ReturnType<typeof count>>): Promise<boolean> => {
    if (!(await count('first')(...batch))) return false
    throw new Error('the answer is lost')
  }
  await assert.rejects(reporter.send(lost), /lost/)
  await reporter.send(count('first'))
  assert.deepEqual([counted, refusals.length], [['first'], 1])
})

test('a batch that is refused under every name is not given up', async () => {
  const reporter = createReporter({ name: 'gateway', onRefused: () => undefined })
  reporter.nextBatch()
  await assert.rejects(
    reporter.send(async () => false),
    /which was never sent/,
  )
  const { count, counted } = countedBatches()
  await reporter.send(count('first'))
  assert.deepEqual(counted, ['first'])
})

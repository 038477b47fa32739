import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  createProgressBar,
  type ProgressStep,
  progressLine,
  stepsOf,
} from '../../../src/platform/cli/progress-bar.ts'

const step = {
  label: 'hot: fold',
  done: 500,
  total: 1000,
  count: 412_000,
  unit: 'events',
  perSecond: 31_200,
  secondsLeft: 78,
} as const

test('progress is one line with a bar, a rate and the remaining time', () => {
  assert.equal(
    progressLine(step),
    'hot: fold  ████████████░░░░░░░░░░░░  412,000 events, 31,200/s, 1 min 18 s left',
  )
})

test('a bar is drawn on a terminal only, and removed at the end', () => {
  const written: string[] = []
  const write = (text: string): boolean => written.push(text) > 0
  const silent = createProgressBar({ write } as never)
  silent.show(step)
  silent.end()
  assert.deepEqual(written, [])
  const drawn = createProgressBar({ write, isTTY: true } as never)
  drawn.show(step)
  drawn.end()
  assert.deepEqual(written, [`\r\x1b[K${progressLine(step)}`, '\r\x1b[K'])
})

test('the rate and the remaining time are based on the work since the first step, and the last step is always drawn', (t) => {
  let nowMs = 60_000
  t.mock.method(performance, 'now', () => nowMs)
  const shown: ProgressStep[] = []
  const show = stepsOf(
    { show: (each) => void shown.push(each), say: () => undefined, end: () => undefined },
    'history',
    100,
  )
  // A tenth was there before: it took no time.
  show(10, 4_000)
  nowMs += 2_000
  show(40, 7_000)
  nowMs += 4_000
  show(100, 13_000)
  assert.deepEqual(
    shown.map(({ perSecond, secondsLeft }) => [perSecond, secondsLeft]),
    [
      [0, null],
      [1_500, 4],
      [1_500, 0],
    ],
  )
  const written: string[] = []
  const bar = createProgressBar({ write: (text: string) => written.push(text) > 0, isTTY: true } as never)
  for (const step of shown) bar.show(step)
  assert.deepEqual(written, [`\r\x1b[K${progressLine(shown[0]!)}`, `\r\x1b[K${progressLine(shown[2]!)}`])
})

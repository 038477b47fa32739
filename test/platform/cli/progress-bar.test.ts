import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createProgressBar, progressLine } from '../../../src/platform/cli/progress-bar.ts'

const step = {
  label: 'hot: fold',
  done: 500,
  total: 1000,
  count: 412_000,
  unit: 'events',
  perSecond: 31_200,
  secondsLeft: 78,
} as const

test('progress is one line with a bar, a rate and the time left', () => {
  assert.equal(
    progressLine(step),
    'hot: fold  ████████████░░░░░░░░░░░░  412,000 events, 31,200/s, 1 min 18 s left',
  )
})

test('a bar is drawn on a terminal only, and cleared at the end', () => {
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

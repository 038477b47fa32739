import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'

const limits = join(import.meta.dirname, '../../../src/platform/cli/limit-memory.ts')

/** The peak of memory of a process that always has the same number of live objects, in MiB. */
const peakMib = (rounds: number, before: string): number => {
  const script = `
    ${before}
    const live = []
    for (let n = 0; n < ${rounds} * 100_000; n += 1) live[n % 100_000] = { n, text: 'text ' + n }
    console.log(process.resourceUsage().maxRSS / 1024)`
  return Number(
    execFileSync(process.execPath, ['--input-type=module', '--eval', script], { encoding: 'utf8' }),
  )
}

test('a process with limits leaves less garbage in memory during long work', () => {
  const limited = peakMib(40, `import { limitMemory } from ${JSON.stringify(limits)}; limitMemory()`)
  const unlimited = peakMib(40, '')
  assert.ok(limited < 0.85 * unlimited, `${limited} MiB with limits, ${unlimited} without`)
})

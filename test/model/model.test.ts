import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { dirname, relative, resolve } from 'node:path'
import { test } from 'node:test'
import fc, { runs as runsOf } from '../support/fast-check.ts'
import { assertVerified } from '../support/verify.ts'
import { setUpOpening } from './opening.ts'
import { play, type Tally } from './play.ts'
import { copyOf, openShop } from './shop.ts'
import { step } from './steps.ts'

const soak = process.env.FAREBOX_SOAK === '1'
const seed = Number(process.env.FAREBOX_SEED ?? Math.floor(Math.random() * 2 ** 31))
const budgetMs = soak ? 30 * 60_000 : 12_000

test('the model imports nothing of the program, only files of test/model', () => {
  const seen = new Set<string>()
  const visit = (file: string): void => {
    if (seen.has(file)) return
    seen.add(file)
    for (const [, from = ''] of readFileSync(file, 'utf8').matchAll(/from '([^']+)'|import\('([^']+)'\)/g)) {
      assert.match(from, /^\./, `${file} imports ${from}`)
      visit(resolve(dirname(file), from))
    }
  }
  visit(resolve(import.meta.dirname, 'model.ts'))
  const outside = [...seen]
    .map((file) => relative(import.meta.dirname, file))
    .filter((file) => !/^model[./]/.test(file))
  assert.ok(seen.size > 1)
  assert.deepEqual(outside, [])
})

test('the service answers like the model, for any actions of customers and operators', async (t) => {
  const opening = await setUpOpening(t)
  const tally: Tally = { steps: 0, deeds: 0, answers: {} }
  let runs = 0
  const tell = (): void =>
    void process.stdout.write(`# model test: ${JSON.stringify({ seed, runs, ...tally })}\n`)
  const deadlineMs = performance.now() + budgetMs
  const run = async (steps: readonly Parameters<typeof play>[2][number][]): Promise<void> => {
    // What has begun is ended in order; no more is begun, nor shrunk.
    if (performance.now() > deadlineMs) return
    const copy = await copyOf(opening.settings.DATABASE_URL!)
    try {
      const shop = await openShop({ ...opening.settings, DATABASE_URL: copy.url })
      try {
        await play(shop, opening, steps, tally)
        const { pool, log, keys } = shop.farebox().core
        await assertVerified({ pool, log, sealKey: keys.seal })
        assert.ok(await shop.auditor().core.projecting.caughtUp(60_000))
        assert.deepEqual((await pool.query('select rule, problem from read.violations')).rows, [])
        runs += 1
        if (runs % 10 === 0) tell()
      } finally {
        await shop.close()
      }
    } finally {
      await copy.drop()
    }
  }
  const length = soak ? 120 : 40
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: length / 2, maxLength: length, size: 'max' }), run),
    {
      seed,
      numRuns: runsOf(20, 400),
    },
  )
  tell()
  assert.ok(runs > 0, 'no run came to its end')
})

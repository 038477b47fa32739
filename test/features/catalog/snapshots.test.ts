import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { parseCatalog } from '../../../src/domain/catalog/catalog-file.ts'
import { decideImport, decideState } from '../../../src/domain/catalog/decide.ts'
import type { CatalogEvent } from '../../../src/domain/catalog/events.ts'
import { catalogFold, emptyCatalog, evolveCatalog } from '../../../src/domain/catalog/fold.ts'
import type { CatalogState } from '../../../src/domain/catalog/product.ts'
import { createCatalogService } from '../../../src/features/catalog/import-catalog.ts'
import { demoJson, demoText } from '../../domain/catalog/samples.ts'
import {
  beginningsOfReads,
  postgresWorld,
  runnerOver,
  signAgain,
  snapshotFrom,
  snapshotsIn,
} from '../../platform/commands/world.ts'
import { eventsOf } from '../../support/decider.ts'

const cause = { actor: { kind: 'operator', name: 'ann' }, correlationId: 'test' } as const

/** A catalogue with 30 price imports, and the events of it that a new process reads. */
const oftenImported = async (t: TestContext) => {
  const { wire, elsewhere, pool } = await postgresWorld(t)
  const options = { snapshots: snapshotsIn(pool), limits: { snapshotEveryMs: 0 } }
  const runner = runnerOver(wire, options)
  const catalog = createCatalogService(runner)
  const file = demoJson()
  for (let n = 1; n <= 30; n += 1) {
    file.products[0].tiers[0].unitPriceMicros = 5_000_000 + n
    assert.equal((await catalog.import(JSON.stringify(file), cause)).outcome, 'done')
  }
  await snapshotFrom(pool, 20)
  await runner.close()
  const begun = beginningsOfReads(wire, elsewhere)
  const read = async () => {
    begun.length = 0
    const cold = runnerOver(wire, options)
    const found = await createCatalogService(cold).read(cause)
    await cold.close()
    return { found, from: begun[0] ?? 0, reads: begun.length }
  }
  return { pool, read }
}

test('a catalogue with many imports is read from its last few events', async (t) => {
  const { pool, read } = await oftenImported(t)
  const { found, from } = await read()
  assert.ok(from >= 20, `it was read from revision ${from}`)
  await pool.query('truncate engine.snapshots')
  const whole = await read()
  assert.equal(whole.from, 0)
  assert.deepEqual(found.products, whole.found.products)
  assert.deepEqual([found.digest, found.importedAt], [whole.found.digest, whole.found.importedAt])
})

for (const [what, state] of Object.entries({
  'of another catalogue': `replace(state, '"digest":"', '"digest":"0')`,
  'without products': `jsonb_set(state::jsonb, '{products}', '[]')::text`,
  'that is nothing': `'null'`,
}))
  test(`a snapshot ${what} is not used for decisions`, async (t) => {
    const { pool, read } = await oftenImported(t)
    await pool.query(`update engine.snapshots set state = ${state}`)
    await signAgain(pool)
    const { found, reads } = await read()
    assert.equal(reads, 2, 'the whole stream is read after it')
    const first = found.resolve(demoJson().products[0].id)
    assert.ok(first && 'tiers' in first)
    assert.equal(first.tiers[0]?.unitPriceMicros, 5_000_030)
  })

test('a snapshot after a product was parked has that product parked', () => {
  const agrees = catalogFold.snapshot?.agrees
  assert.ok(agrees)
  const parsed = parseCatalog(demoText)
  assert.ok(parsed.ok)
  const nowMs = Date.parse('2026-11-24T00:00:00.000Z')
  const stateAfter = (state: CatalogState, events: readonly CatalogEvent[]) =>
    events.reduce(evolveCatalog, state)
  const imported = stateAfter(emptyCatalog, eventsOf(decideImport(emptyCatalog, parsed.file, nowMs)))
  const park = { productId: 'isp-static', state: 'parked', successorId: null } as const
  const [parked] = eventsOf(decideState(imported, park, nowMs))
  assert.ok(parked)
  assert.equal(agrees(stateAfter(imported, [parked]), parked), true)
  assert.equal(agrees(imported, parked), false)
})

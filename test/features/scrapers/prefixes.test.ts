import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createScrapeCommands } from '../../../src/features/scrapers/call-commands.ts'
import { runnerOver } from '../../platform/commands/world.ts'
import { prefixLog, stopAtAppend } from '../../support/prefix-log.ts'
import { bodyIn, found, priceMicros, scrapeWorld } from './world.ts'

/** As EventStoreDB does it: start and hold, end and capture are four appends, one after another. */
for (let stop = 0; stop < 4; stop += 1)
  test(`a process that crashes after ${stop + 1} of its four appends leaves a call that the sweeper ends, and a retry is charged once`, async (t) => {
    const world = await scrapeWorld(t, (_, n) => found({ n }))
    const log = prefixLog(world.log, stopAtAppend(stop, { kind: 'crash', written: true }))
    const runner = runnerOver(log)
    t.after(() => runner.close())
    await world
      .open({ runner, log })
      .call('one')
      .catch(() => undefined)
    const before = (await world.scrape('one'))!
    const { scrapeId, attempt } = before.started
    world.clock.aheadMs = 120_000
    const { settle } = createScrapeCommands({
      runner: runnerOver(world.log, { clock: world.now }),
      results: world.results,
    })
    await settle({ scrapeId, accountId: world.accountId, attempt })
    const billed = (await world.scrape('one'))!.finished!.billed
    assert.equal(billed, (await world.results.of(scrapeId, attempt)) !== null)
    assert.deepEqual(await world.wallet(), { available: 1_000_000 - (billed ? priceMicros : 0), held: 0 })
    bodyIn(await world.there.call('one'))
    bodyIn(await world.here.call('one'))
    assert.deepEqual(await world.wallet(), { available: 1_000_000 - priceMicros, held: 0 })
  })

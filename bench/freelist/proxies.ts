import { planProxies } from '../../src/sandbox/free-list/plan.ts'
import { startFreeProxies } from '../../src/sandbox/free-list/run-proxies.ts'
import { memoryRecords } from '../../test/support/memory-records.ts'

/** A process of free proxies that all work, of every protocol and anonymity. Prints where they listen. */
const count = Number(process.argv[2])
const { running } = await startFreeProxies({
  planned: planProxies(2 * count).filter(({ fault }) => fault === 'none'),
  records: memoryRecords(),
  clock: Date.now,
})
process.stdout.write(`${JSON.stringify(running.map(({ planned: { ip }, port }) => ({ ip, port })))}\n`)

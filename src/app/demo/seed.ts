import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newId } from '../../kernel/ids.ts'
import { createAccounts } from '../../market/accounts/service.ts'
import { createCatalogService } from '../../market/catalog/service.ts'
import { demoStock } from '../../market/stock/demo.ts'
import { addAddresses } from '../../market/stock/stocking.ts'
import { createWallets } from '../../money/ledger/service.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import { takeLock } from '../../platform/postgres/advisory-lock.ts'
import { lockKeys } from '../../platform/postgres/lock-keys.ts'
import type { Core } from '../core.ts'
import { seedAccount, seedScraper } from './accounts.ts'
import { type DemoFile, readDemoFile, writeDemoFile } from './file.ts'

const catalogFile = join(import.meta.dirname, '../../market/catalog/demo/catalog.json')

const seedCatalog = async (core: Core, cause: Cause): Promise<void> => {
  const service = createCatalogService(core.runner)
  const { outcome } = await service.import(await readFile(catalogFile, 'utf8'), cause)
  if (outcome === 'refused')
    throw new Error('the demo catalogue is refused; npm run farebox -- catalog check')
  const catalog = await service.read(cause)
  for (const stocking of demoStock(catalog.products)) await addAddresses(core.runner, stocking, cause)
}

const seedAccounts = async (core: Core, places: Places, cause: Cause): Promise<DemoFile> => {
  const services = { accounts: createAccounts(core), wallets: createWallets(core) }
  return {
    ...places,
    buyer: await seedAccount(services, 'buyer', cause),
    reseller: await seedAccount(services, 'reseller', cause),
    scraper: await seedScraper(services, cause),
  }
}

/** Where this start answers. */
type Places = Pick<DemoFile, 'baseUrl' | 'sandbox'>

/** Whether the demo is to be made: the log is empty, or a former start was killed while it made it. */
const isDue = async (core: Core): Promise<boolean> => {
  const { rows } = await core.pool.query<{ finished_at: string | null }>('select finished_at from work.demo')
  if (rows[0]) return rows[0].finished_at === null
  if ((await core.log.head()) > 0) return false
  await core.pool.query('insert into work.demo default values')
  return true
}

/**
 * Gives an empty log a catalogue, stock and three accounts with keys and money, once; what a killed start left is
 * completed. Each part does nothing the second time. `demo.json` holds the keys (the database holds their hashes only)
 * and gets the address of this start, where this directory has it.
 * @returns the keys, and whether they were made now; null without a demo here
 */
export const seedDemo = async (
  core: Core,
  places: Places,
): Promise<{ readonly demo: DemoFile; readonly fresh: boolean } | null> => {
  const { dataDir } = core.config
  const client = await core.pool.connect()
  try {
    await takeLock(client, lockKeys.filling, {
      what: 'is making the demo or importing a log',
      onWait: (holder) =>
        core.logger.warn({ holder }, 'another process makes the demo or imports a log: waiting for it'),
    })
    if (core.config.demo && (await isDue(core))) {
      const cause: Cause = { actor: { kind: 'system', name: 'demo' }, correlationId: newId('run') }
      await seedCatalog(core, cause)
      const demo = await seedAccounts(core, places, cause)
      await writeDemoFile(dataDir, demo)
      await core.pool.query('update work.demo set finished_at = clock_timestamp()')
      return { demo, fresh: true }
    }
  } finally {
    // Ends the session and with it the lock.
    client.release(true)
  }
  const kept = await readDemoFile(dataDir)
  if (!kept) return null
  const demo = { ...kept, ...places }
  if (kept.baseUrl !== places.baseUrl || kept.sandbox !== places.sandbox) await writeDemoFile(dataDir, demo)
  return { demo, fresh: false }
}

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Accounts, createAccounts } from '../../features/accounts/index.ts'
import { createCatalogService } from '../../features/catalog/index.ts'
import { addAddresses } from '../../features/stock/index.ts'
import { createWallets, type Wallets } from '../../features/wallet/index.ts'
import type { Cause } from '../../kernel/event.ts'
import { type AccountId, type KeyId, newId } from '../../kernel/ids.ts'
import type { KeyScope as Scope } from '../../kernel/scopes.ts'
import type { Core } from '../../platform/feature/core.ts'
import { lockKeys, takeLock } from '../../platform/postgres/locks.ts'
import { type DemoAccount, type DemoFile, readDemoFile, writeDemoFile } from './demo-file.ts'
import { demoStock } from './demo-stock.ts'

type DemoRole = 'buyer' | 'reseller' | 'scraper'

type RoleSetup = { readonly reseller: boolean; readonly scopes: readonly Scope[]; readonly cents: number }

const wanted: Readonly<Record<DemoRole, RoleSetup>> = {
  buyer: { reseller: false, scopes: ['buy'], cents: 100_000 },
  reseller: { reseller: true, scopes: ['buy'], cents: 500_000 },
  scraper: { reseller: false, scopes: ['scrape'], cents: 5_000 },
}

/** The account of this e-mail. Creates it if it is missing. */
const ensureAccount = async (
  accounts: Accounts,
  account: { readonly email: string; readonly reseller: boolean },
  cause: Cause,
): Promise<AccountId> => {
  const creation = await accounts.create(account, cause)
  if (creation.outcome === 'done') return creation.accountId
  if (creation.refusal.code !== 'email_taken')
    throw new Error(`the demo account is refused: ${creation.refusal.code}`)
  return creation.refusal.accountId
}

/** Revokes the keys of a killed start. Their texts are lost, so they are useless. */
const revokeLostKeys = async (accounts: Accounts, accountId: AccountId, cause: Cause): Promise<void> => {
  const state = await accounts.read(accountId, cause)
  for (const [keyId, key] of state?.keys ?? [])
    if (!key.revoked) await accounts.revokeKey(keyId as KeyId, cause)
}

type Services = { readonly accounts: Accounts; readonly wallets: Wallets }

/** @throws Error when the key is refused */
const issue = async (
  { accounts }: Services,
  accountId: AccountId,
  scopes: readonly Scope[],
  cause: Cause,
): Promise<string> => {
  const issued = await accounts.issueKey({ accountId, scopes, cap: null }, cause)
  if (issued.outcome === 'refused') throw new Error(`the demo key is refused: ${issued.refusal.code}`)
  return issued.key
}

/** Creates a demo account with a key and money. After a kill it can be repeated; the account then has a new key. */
const seedAccount = async (
  services: Services,
  role: DemoRole,
  domain: string,
  cause: Cause,
): Promise<DemoAccount> => {
  const { accounts, wallets } = services
  const { reseller, scopes, cents } = wanted[role]
  const email = `${role}@${domain}`
  const accountId = await ensureAccount(accounts, { email, reseller }, cause)
  await revokeLostKeys(accounts, accountId, cause)
  const key = await issue(services, accountId, scopes, cause)
  // The reference is unique, so a second attempt changes nothing.
  const credited = await wallets.credit({ accountId, amountCents: cents, reference: 'demo' }, cause)
  if (credited.outcome === 'refused' && credited.refusal.code !== 'already_applied')
    throw new Error(`the demo credit is refused: ${credited.refusal.code}`)
  return { accountId, key }
}

const catalogFile = join(import.meta.dirname, './catalog.json')

const seedCatalog = async (core: Core, cause: Cause): Promise<void> => {
  const service = createCatalogService(core.runner)
  const { outcome } = await service.import(await readFile(catalogFile, 'utf8'), cause)
  if (outcome === 'refused')
    throw new Error('the demo catalogue is refused; npm run farebox -- catalog check')
  const catalog = await service.read(cause)
  for (const stocking of demoStock(catalog.products)) await addAddresses(core.runner, stocking, cause)
}

/** Creates the three accounts of a demo. @param domain of their e-mail addresses */
export const seedAccounts = async (
  core: Core,
  domain: string,
  cause: Cause,
): Promise<Pick<DemoFile, DemoRole>> => {
  const services = { accounts: createAccounts(core), wallets: createWallets(core) }
  const scraper = await seedAccount(services, 'scraper', domain, cause)
  return {
    buyer: await seedAccount(services, 'buyer', domain, cause),
    reseller: await seedAccount(services, 'reseller', domain, cause),
    // Its first key cannot pay into the wallet.
    scraper: { ...scraper, walletKey: await issue(services, scraper.accountId as AccountId, ['buy'], cause) },
  }
}

/** The addresses of this start. */
type StartAddresses = Pick<DemoFile, 'baseUrl' | 'sandbox'>

/** Whether the demo must be created: the log is empty, or an earlier start was killed while creating it. */
const isDue = async (core: Core): Promise<boolean> => {
  const { rows } = await core.pool.query<{ finished_at: string | null }>('select finished_at from work.demo')
  if (rows[0]) return rows[0].finished_at === null
  if ((await core.log.head()) > 0) return false
  await core.pool.query('insert into work.demo default values')
  return true
}

/**
 * Creates a catalogue, stock and three accounts with keys and money in an empty log, once. Completes the work of a
 * killed start: each part can be repeated safely. `demo.json` contains the keys (the database has only their hashes).
 * If this directory has the file, it gets the addresses of this start.
 * @returns the keys, and whether this start created them; null: there is no demo here
 */
export const seedDemo = async (
  core: Core,
  { dataDir, demo: wanted }: { readonly dataDir: string; readonly demo: boolean },
  startAddresses: StartAddresses,
): Promise<{ readonly demo: DemoFile; readonly fresh: boolean } | null> => {
  const client = await core.pool.connect()
  try {
    await takeLock(client, lockKeys.filling, {
      what: 'is making the demo or importing a log',
      onWait: (holder) =>
        core.logger.warn({ holder }, 'another process makes the demo or imports a log: waiting for it'),
    })
    if (wanted && (await isDue(core))) {
      const cause: Cause = { actor: { kind: 'system', name: 'demo' }, correlationId: newId('run') }
      await seedCatalog(core, cause)
      const demo = { ...startAddresses, ...(await seedAccounts(core, 'demo.farebox.example', cause)) }
      await writeDemoFile(dataDir, demo)
      await core.pool.query('update work.demo set finished_at = clock_timestamp()')
      return { demo, fresh: true }
    }
  } finally {
    // Ends the session, which releases the lock.
    client.release(true)
  }
  const storedFile = await readDemoFile(dataDir)
  if (!storedFile) return null
  // The directory may have the file of a demo in another database.
  if ((await core.pool.query('select from work.demo')).rowCount === 0) return null
  const demo = { ...storedFile, ...startAddresses }
  if (storedFile.baseUrl !== startAddresses.baseUrl || storedFile.sandbox !== startAddresses.sandbox)
    await writeDemoFile(dataDir, demo)
  return { demo, fresh: false }
}

import type { AccountId, KeyId } from '../../kernel/ids.ts'
import type { Accounts } from '../../market/accounts/service.ts'
import type { Wallets } from '../../money/ledger/service.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import type { Scope } from '../../terms/scope.ts'
import type { DemoAccount, DemoFile } from './file.ts'

export type DemoRole = 'buyer' | 'reseller' | 'scraper'

type Wanted = { readonly reseller: boolean; readonly scopes: readonly Scope[]; readonly cents: number }

const wanted: Readonly<Record<DemoRole, Wanted>> = {
  buyer: { reseller: false, scopes: ['buy'], cents: 100_000 },
  reseller: { reseller: true, scopes: ['buy'], cents: 500_000 },
  scraper: { reseller: false, scopes: ['scrape'], cents: 5_000 },
}

/** The account of this e-mail, made when it is missing. */
const ensureAccount = async (
  accounts: Accounts,
  account: { readonly email: string; readonly reseller: boolean },
  cause: Cause,
): Promise<AccountId> => {
  const made = await accounts.create(account, cause)
  if (made.outcome === 'done') return made.accountId
  if (made.refusal.code !== 'email_taken')
    throw new Error(`the demo account is refused: ${made.refusal.code}`)
  return made.refusal.accountId
}

/** A key whose text a killed start took with it serves nobody: it is revoked. */
const revokeLostKeys = async (accounts: Accounts, accountId: AccountId, cause: Cause): Promise<void> => {
  const state = await accounts.read(accountId, cause)
  for (const [keyId, key] of state?.keys ?? [])
    if (!key.revoked) await accounts.revokeKey(keyId as KeyId, cause)
}

type Services = { readonly accounts: Accounts; readonly wallets: Wallets }

/** @throws when it is refused */
const issue = async (
  { accounts }: Services,
  accountId: AccountId,
  scopes: readonly Scope[],
  cause: Cause,
): Promise<string> => {
  const issued = await accounts.issueKey({ accountId, scopes, dailyCapCents: null }, cause)
  if (issued.outcome === 'refused') throw new Error(`the demo key is refused: ${issued.refusal.code}`)
  return issued.key
}

/** One demo account with a key and money. Done again after a kill, it ends the same, with a fresh key. */
export const seedAccount = async (services: Services, role: DemoRole, cause: Cause): Promise<DemoAccount> => {
  const { accounts, wallets } = services
  const { reseller, scopes, cents } = wanted[role]
  const email = `${role}@demo.farebox.example`
  const accountId = await ensureAccount(accounts, { email, reseller }, cause)
  await revokeLostKeys(accounts, accountId, cause)
  const key = await issue(services, accountId, scopes, cause)
  // The reference makes it once for ever, so a second try moves nothing.
  const credited = await wallets.credit({ accountId, amountCents: cents, reference: 'demo' }, cause)
  if (credited.outcome === 'refused' && credited.refusal.code !== 'already_applied')
    throw new Error(`the demo credit is refused: ${credited.refusal.code}`)
  return { accountId, key }
}

/** The account that scrapes, with a second key: the first one reads no wallet. */
export const seedScraper = async (services: Services, cause: Cause): Promise<DemoFile['scraper']> => {
  const account = await seedAccount(services, 'scraper', cause)
  return { ...account, walletKey: await issue(services, account.accountId as AccountId, ['buy'], cause) }
}

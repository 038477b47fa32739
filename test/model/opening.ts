import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { emptyDatabase } from '../support/postgres.ts'
import type { Account, Catalog, World } from './model.ts'
import { openShop, type Settings, type Shop, settingsFor } from './shop.ts'

export const names = ['buyer', 'reseller', 'scraper', 'capped'] as const
export type Name = (typeof names)[number]

/** The players' ids and keys. */
export type Cards = Record<
  Name,
  { readonly accountId: string; readonly keys: Record<string, { keyId: string; text: string }> }
>

/** A shop with accounts, as every run finds it. */
export type Opening = {
  readonly settings: Settings
  readonly cards: Cards
  readonly world: World
  readonly catalog: Catalog
}

const plans: Record<Name, { reseller: boolean; scopes: string[]; capCents: number | null; cents: number }> = {
  buyer: { reseller: false, scopes: ['buy'], capCents: null, cents: 15_000 },
  reseller: { reseller: true, scopes: ['buy', 'scrape'], capCents: null, cents: 40_000 },
  scraper: { reseller: false, scopes: ['scrape'], capCents: null, cents: 5_000 },
  capped: { reseller: false, scopes: ['buy'], capCents: 20_000, cents: 60_000 },
}

/** Of the reseller: figures that do not come out even. */
const terms = { discountBp: 1_250, markupMillionths: 1_333_333 }

const ok = async (shop: Shop, ...args: readonly string[]) => {
  const { code, json } = await shop.operator(...args)
  if (code !== 0) throw new Error(`${args.join(' ')}: ${JSON.stringify(json)}`)
  return json
}

const seat = async (shop: Shop, name: Name): Promise<{ card: Cards[Name]; account: Account }> => {
  const { reseller, scopes, capCents, cents } = plans[name]
  const email = `${name}@model.example`
  const { accountId } = await ok(
    shop,
    'accounts',
    'create',
    '--email',
    email,
    ...(reseller ? ['--reseller'] : []),
  )
  const cap = capCents === null ? [] : ['--daily-cap-cents', String(capCents)]
  const create = ['keys', 'create', '--account', accountId]
  const main = await ok(shop, ...create, '--scopes', scopes.join(','), ...cap)
  // The checks between the steps use a separate key, whatever happens to the other one.
  const audit = await ok(shop, ...create, '--scopes', 'buy')
  await ok(
    shop,
    ...['wallet', 'credit', '--kind=payment', '--account', accountId],
    ...['--cents', String(cents), '--reference', 'start'],
  )
  const keyOf = (made: { keyId: string; key: string }) => ({ keyId: made.keyId, text: made.key })
  const idle = { revoked: false, spent: [] }
  return {
    card: { accountId, keys: { main: keyOf(main), audit: keyOf(audit) } },
    account: {
      reseller,
      terms: reseller ? terms : null,
      blocked: false,
      balanceCents: cents,
      owedCents: 0,
      movements: [{ type: 'credit', cents, orderId: null }],
      references: ['start'],
      keys: { main: { scopes, capCents, ...idle } },
    },
  }
}

const poolsOf = async (shop: Shop): Promise<Record<string, number>> => {
  const { stock } = await ok(shop, 'stock', 'list')
  return Object.fromEntries(
    // biome-ignore lint/suspicious/noExplicitAny: the output of the command
    stock.map((pool: any) => [
      [pool.productId, pool.country, pool.carrierId ?? '', pool.service ?? ''].join(' '),
      pool.total,
    ]),
  )
}

/** Opens a shop once, seats the players and closes it: runs start from copies of its database. */
export const setUpOpening = async (t: TestContext): Promise<Opening> => {
  const { url } = await emptyDatabase(t)
  const settings = await settingsFor(t, url)
  const shop = await openShop(settings)
  const accounts: World['accounts'] = {}
  const cards: Partial<Cards> = {}
  for (const name of names) {
    const { card, account } = await seat(shop, name)
    cards[name] = card
    accounts[name] = account
  }
  const account = ['--account', cards.reseller!.accountId]
  const { discountBp, markupMillionths } = terms
  await ok(
    shop,
    ...['reseller', 'set', ...account, '--discount', String(discountBp / 100)],
    ...['--markup', String(markupMillionths / 1_000_000)],
  )
  for (const [rail, provider] of [
    ['card', 'stripe'],
    ['crypto', 'nowpayments'],
  ] as const)
    await ok(shop, 'reseller', 'gateway', ...account, '--rail', rail, '--provider', provider, '--sandbox')
  const pools = await poolsOf(shop)
  await shop.close()
  const file = join(import.meta.dirname, '../../src/app/demo/catalog.json')
  const { products } = JSON.parse(await readFile(file, 'utf8'))
  return {
    settings,
    cards: cards as Cards,
    catalog: products,
    world: { accounts, orders: {}, byKey: {}, plans: {}, rentals: {}, pools, customers: {} },
  }
}

import type pg from 'pg'
import type { DemoFile } from '../../src/app/demo/demo-file.ts'
import type { Farebox } from '../../src/app/start.ts'
import { createAccounts } from '../../src/features/accounts/account-service.ts'
import { createMeter } from '../../src/features/plans/meter-traffic.ts'
import { createResellerCredentials } from '../../src/features/resellers/gateway-credentials.ts'
import { createResellers } from '../../src/features/resellers/terms.ts'
import { createWebhooks } from '../../src/features/webhooks/endpoint-service.ts'
import { createWebhookValues } from '../../src/features/webhooks/webhook-vault.ts'
import { createMeteringHour } from '../../src/gateway/admit/budgets.ts'
import { createUsage } from '../../src/gateway/admit/record-usage.ts'
import { createReporter } from '../../src/gateway/admit/reporter.ts'
import type { Cause } from '../../src/kernel/event.ts'
import { type AccountId, newId } from '../../src/kernel/ids.ts'
import { createVault } from '../../src/platform/vault/seal.ts'
import { noticesOf } from './history-notices.ts'
import { type Act, type Habit, habitOf, type Person, type World } from './history-people.ts'
import { type Newcomer, newcomers } from './population.ts'
import { createRandom, type Day, dayMs, dayOf, type HistoryClock, hourMs, type Random } from './rhythm.ts'
import { type Client, createShop, loseCallbacks, type OrderAnswer } from './shop.ts'
import { createTraffic } from './traffic.ts'
import { createUpkeep } from './upkeep.ts'

export type HistoryRequest = {
  /** Number of whole days before the last day. */
  readonly days: number
  /** Number of accounts in addition to the accounts of the demo. */
  readonly customers: number
  /** Any text. The same seed gives the same history. */
  readonly seed: string
}

/** The progress of the history. */
export type HistoryStep = {
  /** Of `total`. A unit is about the work for one habit of one account on one day. */
  readonly done: number
  readonly total: number
  /** Number of events in the log. */
  readonly events: number
}

/** The work for a day without actions, and the work after the last day, in the same units (measured over 90 days). */
const baseDayWork = 14
const finalWork = 10

/** The hours (UTC) of the operator's actions, of the closing of months, and of notices. */
const hours = { operator: 10, monthEnd: 4, notices: 9 } as const
/** Interval of the reactors, hours. On a server they run every second. */
const roundHours = 4
const reportHours: ReadonlySet<number> = new Set([11, 23])

type Inhabitant = { readonly person: Person; readonly habits: readonly Habit[]; readonly until: number }

/** Fills a log with history until the end of the clock. The log contains only the demo, from the start of the clock. */
export const fillHistory = async (
  farebox: Farebox & { readonly baseUrl: string; readonly auditorPool: pg.Pool },
  demo: DemoFile,
  clock: HistoryClock,
  { days, customers, seed }: HistoryRequest,
  onStep: (step: HistoryStep) => void,
): Promise<{ readonly accounts: number; readonly orders: number }> => {
  const { core, sandboxUrl, auditorPool } = farebox
  if (sandboxUrl === null) throw new Error('the demo runs no sandbox')
  await loseCallbacks(sandboxUrl)
  const meter = createMeter(core)
  const shop = createShop({
    baseUrl: farebox.baseUrl,
    sandboxUrl,
    deposits: farebox.features.deposits.deposits,
  })
  const upkeep = createUpkeep(farebox, shop, meter)
  const meteringHour = createMeteringHour(core.clock)
  const traffic = createTraffic({
    usage: createUsage({
      ...core,
      reporter: createReporter({
        name: `history ${newId('run')}`,
        onRefused: (error) => {
          throw error
        },
      }),
      hosts: 'full',
      meteringHour,
    }),
    meteringHour,
    meter,
    works: (accountId) => !upkeep.isBlocked(accountId),
  })
  const seal = await upkeep.sealer(auditorPool)
  const accounts = createAccounts(core)
  const resellers = createResellers({
    runner: core.runner,
    credentials: createResellerCredentials({ pool: core.pool, vault: createVault(core.keys.master) }),
  })
  const operator = (): Cause => ({ actor: { kind: 'operator', name: 'demo' }, correlationId: newId('run') })

  /** Actions of later days, by day. */
  const scheduledActs = new Map<number, Act[]>()
  let today = 0
  const scheduleLater = (afterDays: number, hour: number, run: Act['run']): void => {
    const index = today + afterDays
    scheduledActs.set(index, [...(scheduledActs.get(index) ?? []), { hour, run }])
  }
  let orders = 0
  const world: World = {
    shop,
    traffic,
    now: clock.read,
    ordered: (order: OrderAnswer, random: Random) => {
      orders += 1
      if (!random.chance(0.014)) return
      // Rentals are refunded as a whole, traffic by a part of its price.
      const [proxyId] = order.proxyIds
      const request =
        proxyId === undefined
          ? ({ kind: 'cents', cents: Math.max(1, Math.floor(order.amountCents / 4)) } as const)
          : ({ kind: 'whole' } as const)
      scheduleLater(1, hours.operator, () => upkeep.refund(order.orderId, request))
    },
  }

  const setShop = async (accountId: string, name: string): Promise<void> => {
    const id = accountId as AccountId
    const changes = [
      await resellers.change(
        id,
        { discountBp: 1_500, markupMillionths: 1_350_000, shop: { merchantName: name } },
        operator(),
      ),
      await resellers.setGateway(id, 'card', { provider: 'stripe', sandbox: true }, operator()),
    ]
    const refusal = changes.find(({ outcome }) => outcome === 'refused')
    if (refusal) throw new Error(`the terms of a reseller are refused: ${JSON.stringify(refusal)}`)
  }
  const createInhabitant = (kinds: Newcomer['kinds'], person: Person, until: number): Inhabitant => ({
    person,
    habits: kinds.map((kind) => habitOf(kind, person, world)),
    until,
  })

  const openAccount = async (newcomer: Newcomer): Promise<Inhabitant> => {
    const { email, reseller, kinds, rail, until } = newcomer
    const created = await accounts.create({ email, reseller }, operator())
    if (created.outcome === 'refused') throw new Error(`${email} is refused: ${created.refusal.code}`)
    const { accountId } = created
    const scopes = ['buy', 'scrape'] as const
    const issued = await accounts.issueKey({ accountId, scopes, cap: null, name: 'production' }, operator())
    if (issued.outcome === 'refused') throw new Error(`a key is refused: ${issued.refusal.code}`)
    const client: Client = { accountId, key: issued.key, scrapeKey: issued.key, rail }
    if (reseller) await setShop(accountId, email.slice(email.indexOf('@') + 1).replace(/-\d+\.example$/, ''))
    return createInhabitant(kinds, { ...newcomer, client }, until)
  }

  /** The accounts of the demo. They act from the first day on. */
  const demoInhabitants = async (): Promise<readonly Inhabitant[]> => {
    const { buyer, reseller, scraper } = demo
    const demoPerson = (role: string, scale: number, client: Omit<Client, 'rail'>): Person => ({
      client: { ...client, rail: 'card' },
      random: createRandom(`${seed}/demo/${role}`),
      scale,
      eastHours: 1,
      since: 0,
    })
    const withScrapeKey = (account: DemoFile['buyer']) => ({ ...account, scrapeKey: account.key })
    const { accountId, key, walletKey } = scraper
    await setShop(reseller.accountId, 'Demo Reseller')
    const forever = Number.POSITIVE_INFINITY
    return [
      createInhabitant(
        ['traffic', 'addresses', 'subscription'],
        demoPerson('buyer', 1.4, withScrapeKey(buyer)),
        forever,
      ),
      createInhabitant(['reseller', 'traffic'], demoPerson('reseller', 1, withScrapeKey(reseller)), forever),
      createInhabitant(
        ['scraping'],
        demoPerson('scraper', 1.6, { accountId, key: walletKey, scrapeKey: key }),
        forever,
      ),
    ]
  }

  const inhabitants: Inhabitant[] = [...(await demoInhabitants())]
  const arriving = newcomers({ seed, customers, days })
  const habitsOfDemo = inhabitants.reduce((sum, { habits }) => sum + habits.length, 0)

  /** The number of accounts grows, so later days take more work than earlier ones. */
  const workOf = (index: number): number => {
    const active = arriving.filter(({ since, until }) => since <= index && index < until)
    const habits = active.reduce((sum, { kinds }) => sum + kinds.length, habitsOfDemo)
    return (baseDayWork + habits) * Math.min(1, (clock.endMs - clock.firstMs - index * dayMs) / dayMs)
  }

  const schedule = (day: Day): Map<number, (() => Promise<void>)[][]> => {
    const byHour = new Map<number, (() => Promise<void>)[][]>()
    const plan = (acts: readonly Act[]): void => {
      for (const hour of new Set(acts.map((act) => act.hour)))
        byHour.set(hour, [
          ...(byHour.get(hour) ?? []),
          acts.filter((act) => act.hour === hour).map(({ run }) => run),
        ])
    }
    for (const { habits, until } of inhabitants)
      if (day.index < until) plan(habits.flatMap((habit) => habit(day)))
    for (const newcomer of arriving)
      if (newcomer.since === day.index)
        plan([
          {
            hour: newcomer.random.whole(7, 19),
            run: async () => void inhabitants.push(await openAccount(newcomer)),
          },
        ])
    plan(scheduledActs.get(day.index) ?? [])
    plan(
      noticesOf(day.index, days, day.startMs).map((text) => ({
        hour: hours.notices,
        run: () => upkeep.publish(text),
      })),
    )
    if (new Date(day.startMs).getUTCDate() === 2 && day.index > 1)
      plan([{ hour: hours.monthEnd, run: upkeep.closeMonth }])
    scheduledActs.delete(day.index)
    return byHour
  }

  const minuteRandom = createRandom(`${seed}/minutes`)
  const runHour = async (day: Day, hour: number, actLists: (() => Promise<void>)[][]): Promise<void> => {
    const startMs = day.startMs + hour * hourMs
    clock.goTo(
      startMs + minuteRandom.whole(0, 40) * 60_000 + minuteRandom.whole(0, 59_999),
      startMs + hourMs - 1,
    )
    // Accounts act concurrently. The actions of one account run one after another.
    await Promise.all(
      actLists.map(async (actSequence) => {
        for (const act of actSequence) await act()
      }),
    )
    traffic.hour(day, hour, clock.read())
    if (reportHours.has(hour)) await traffic.report()
    if (hour % roundHours === roundHours - 1) await upkeep.round()
  }

  let done = 0
  const total = Array.from({ length: days + 1 }, (_, index) => workOf(index)).reduce(
    (a, b) => a + b,
    finalWork,
  )
  const step = async (): Promise<void> => onStep({ done, total, events: await core.log.head() })

  try {
    await step()
    for (let index = 0; index <= days && clock.firstMs + index * dayMs < clock.endMs; index += 1) {
      today = index
      const day = dayOf(index, clock.firstMs)
      const byHour = schedule(day)
      for (let hour = 0; hour < 24 && day.startMs + hour * hourMs < clock.endMs; hour += 1)
        await runHour(day, hour, byHour.get(hour) ?? [])
      for (const { accountId, depositId, afterDays } of shop.takeDisputed()) {
        scheduleLater(afterDays, hours.operator, () => upkeep.dispute(accountId, depositId))
        scheduleLater(afterDays + 2, hours.operator, () => upkeep.unblock(accountId))
      }
      await seal()
      done += workOf(index)
      await step()
    }
    await traffic.report()
    await upkeep.round()
    await registerWebhooks(core, inhabitants, operator)
    await upkeep.settled()
    await seal()
    done = total
    await step()
    return { accounts: inhabitants.length, orders }
  } finally {
    await shop.close()
  }
}

/**
 * Registers a webhook endpoint for every sixth account. Their hosts do not exist. They are registered last, so that no
 * past event is due for delivery.
 */
const registerWebhooks = async (
  core: Farebox['core'],
  inhabitants: readonly Inhabitant[],
  cause: () => Cause,
): Promise<void> => {
  const values = createWebhookValues({ pool: core.pool, vault: createVault(core.keys.master) })
  const webhooks = createWebhooks({ runner: core.runner, values })
  for (const [at, { person }] of inhabitants.entries())
    if (at % 6 === 5)
      await webhooks.register(
        {
          accountId: person.client.accountId as AccountId,
          url: `https://hooks.customer-${at}.example/farebox`,
          events: null,
        },
        cause(),
      )
}

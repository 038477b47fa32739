import type { DemoFile } from '../../src/app/demo/demo-file.ts'
import type { Farebox } from '../../src/app/start.ts'
import { createAccounts } from '../../src/features/accounts/account-service.ts'
import { createMeter } from '../../src/features/plans/meter-traffic.ts'
import { createResellerCredentials } from '../../src/features/resellers/gateway-credentials.ts'
import { createResellers } from '../../src/features/resellers/terms.ts'
import { createWebhooks } from '../../src/features/webhooks/endpoint-service.ts'
import { createWebhookValues } from '../../src/features/webhooks/webhook-vault.ts'
import { createUsage } from '../../src/gateway/admit/record-usage.ts'
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

export type HistoryAsked = {
  /** Whole days before the one on which it ends. */
  readonly days: number
  /** Accounts beside those of the demo. */
  readonly customers: number
  /** Any text; the same one tells the same story. */
  readonly seed: string
}

/** How far the history has come. */
export type HistoryStep = {
  /** Of `total`, in units of work: about as much as one habit of one account takes in a day. */
  readonly done: number
  readonly total: number
  /** In the log. */
  readonly events: number
}

/** What a day takes that nobody acts on, and what follows the last day, in units of work. */
const emptyDay = 3
const ending = 60

/** The hour of a day in which things of the operator are done, and others that have one. */
const hours = { operator: 10, monthEnd: 4, notices: 9 } as const
/** Reactors look this often, hours; a server's do every second. */
const roundHours = 4
const reportHours: ReadonlySet<number> = new Set([11, 23])

type Inhabitant = { readonly person: Person; readonly habits: readonly Habit[]; readonly until: number }

/** Fills an empty log, whose demo was made at the first instant of the clock, with what happened until the clock's end. */
export const fillHistory = async (
  farebox: Farebox & { readonly baseUrl: string },
  demo: DemoFile,
  clock: HistoryClock,
  { days, customers, seed }: HistoryAsked,
  onStep: (step: HistoryStep) => void,
): Promise<{ readonly accounts: number; readonly orders: number }> => {
  const { core, sandboxUrl } = farebox
  if (sandboxUrl === null) throw new Error('the demo runs no sandbox')
  await loseCallbacks(sandboxUrl)
  const meter = createMeter(core)
  const shop = createShop({
    baseUrl: farebox.baseUrl,
    sandboxUrl,
    deposits: farebox.features.deposits.deposits,
  })
  const upkeep = createUpkeep(farebox, shop, meter)
  const traffic = createTraffic({
    usage: createUsage({ ...core, worker: 'history' }),
    meter,
    works: (accountId) => !upkeep.isBlocked(accountId),
  })
  const seal = await upkeep.sealer()
  const accounts = createAccounts(core)
  const resellers = createResellers({
    runner: core.runner,
    credentials: createResellerCredentials({ pool: core.pool, vault: createVault(core.keys.master) }),
  })
  const operator = (): Cause => ({ actor: { kind: 'operator', name: 'demo' }, correlationId: newId('run') })

  /** What is to be done on later days, by day. */
  const later = new Map<number, Act[]>()
  let today = 0
  const laterOn = (afterDays: number, hour: number, run: Act['run']): void => {
    const index = today + afterDays
    later.set(index, [...(later.get(index) ?? []), { hour, run }])
  }
  let orders = 0
  const world: World = {
    shop,
    traffic,
    now: clock.read,
    ordered: (order: OrderAnswer, random: Random) => {
      orders += 1
      if (!random.chance(0.014)) return
      // Addresses are taken back one by one, of traffic a part of the price is.
      const [proxyId] = order.proxyIds
      const request =
        proxyId === undefined
          ? ({ kind: 'cents', cents: Math.max(1, Math.floor(order.amountCents / 4)) } as const)
          : ({ kind: 'whole' } as const)
      laterOn(1, hours.operator, () => upkeep.refund(order.orderId, request))
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
  const settle = (kinds: Newcomer['kinds'], person: Person, until: number): Inhabitant => ({
    person,
    habits: kinds.map((kind) => habitOf(kind, person, world)),
    until,
  })

  const openAccount = async (newcomer: Newcomer): Promise<Inhabitant> => {
    const { email, reseller, kinds, rail, until } = newcomer
    const made = await accounts.create({ email, reseller }, operator())
    if (made.outcome === 'refused') throw new Error(`${email} is refused: ${made.refusal.code}`)
    const { accountId } = made
    const scopes = ['buy', 'scrape'] as const
    const issued = await accounts.issueKey(
      { accountId, scopes, dailyCapCents: null, name: 'production' },
      operator(),
    )
    if (issued.outcome === 'refused') throw new Error(`a key is refused: ${issued.refusal.code}`)
    const client: Client = { accountId, key: issued.key, scrapeKey: issued.key, rail }
    if (reseller) await setShop(accountId, email.slice(email.indexOf('@') + 1).replace(/-\d+\.example$/, ''))
    return settle(kinds, { ...newcomer, client }, until)
  }

  /** The demo's own accounts are there from the first day. */
  const ofDemo = async (): Promise<readonly Inhabitant[]> => {
    const { buyer, reseller, scraper } = demo
    const own = (role: string, scale: number, client: Omit<Client, 'rail'>): Person => ({
      client: { ...client, rail: 'card' },
      random: createRandom(`${seed}/demo/${role}`),
      scale,
      eastHours: 1,
      since: 0,
    })
    const of = (account: DemoFile['buyer']) => ({ ...account, scrapeKey: account.key })
    const { accountId, key, walletKey } = scraper
    await setShop(reseller.accountId, 'Demo Reseller')
    const forever = Number.POSITIVE_INFINITY
    return [
      settle(['traffic', 'addresses', 'subscription'], own('buyer', 1.4, of(buyer)), forever),
      settle(['reseller', 'traffic'], own('reseller', 1, of(reseller)), forever),
      settle(['scraping'], own('scraper', 1.6, { accountId, key: walletKey, scrapeKey: key }), forever),
    ]
  }

  const inhabitants: Inhabitant[] = [...(await ofDemo())]
  const coming = newcomers({ seed, customers, days })
  const habitsOfDemo = inhabitants.reduce((sum, { habits }) => sum + habits.length, 0)

  /** Ever more accounts come, so late days take longer than early ones. */
  const workOf = (index: number): number => {
    const acting = coming.filter(({ since, until }) => since <= index && index < until)
    const habits = acting.reduce((sum, { kinds }) => sum + kinds.length, habitsOfDemo)
    return (emptyDay + habits) * Math.min(1, (clock.endMs - clock.firstMs - index * dayMs) / dayMs)
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
    for (const newcomer of coming)
      if (newcomer.since === day.index)
        plan([
          {
            hour: newcomer.random.whole(7, 19),
            run: async () => void inhabitants.push(await openAccount(newcomer)),
          },
        ])
    plan(later.get(day.index) ?? [])
    plan(
      noticesOf(day.index, days, day.startMs).map((text) => ({
        hour: hours.notices,
        run: () => upkeep.publish(text),
      })),
    )
    if (new Date(day.startMs).getUTCDate() === 2 && day.index > 1)
      plan([{ hour: hours.monthEnd, run: upkeep.closeMonth }])
    later.delete(day.index)
    return byHour
  }

  const minutes = createRandom(`${seed}/minutes`)
  const liveHour = async (day: Day, hour: number, lanes: (() => Promise<void>)[][]): Promise<void> => {
    const startMs = day.startMs + hour * hourMs
    clock.goTo(startMs + minutes.whole(0, 40) * 60_000 + minutes.whole(0, 59_999), startMs + hourMs - 1)
    // Everybody acts by themselves, one thing after another.
    await Promise.all(
      lanes.map(async (lane) => {
        for (const act of lane) await act()
      }),
    )
    traffic.hour(day, hour, clock.read())
    if (reportHours.has(hour)) await traffic.report()
    if (hour % roundHours === roundHours - 1) await upkeep.round()
  }

  let done = 0
  const total = Array.from({ length: days + 1 }, (_, index) => workOf(index)).reduce((a, b) => a + b, ending)
  const step = async (): Promise<void> => onStep({ done, total, events: await core.log.head() })

  try {
    await step()
    for (let index = 0; index <= days && clock.firstMs + index * dayMs < clock.endMs; index += 1) {
      today = index
      const day = dayOf(index, clock.firstMs)
      const byHour = schedule(day)
      for (let hour = 0; hour < 24 && day.startMs + hour * hourMs < clock.endMs; hour += 1)
        await liveHour(day, hour, byHour.get(hour) ?? [])
      for (const { accountId, depositId, afterDays } of shop.takeDisputed()) {
        laterOn(afterDays, hours.operator, () => upkeep.dispute(accountId, depositId))
        laterOn(afterDays + 2, hours.operator, () => upkeep.unblock(accountId))
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

/** Every sixth account has an endpoint. They come last, so that nothing of the past is due; their hosts do not exist. */
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

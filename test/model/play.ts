import assert from 'node:assert/strict'
import type { Called } from '../support/http.ts'
import { until } from '../support/until.ts'
import { audit } from './audit.ts'
import {
  type Deed,
  type Event,
  findProduct,
  judgeTogether,
  type Printed,
  type Request,
  type World,
} from './model.ts'
import { type Cards, type Name, names, type Opening } from './opening.ts'
import { type Action, customerFor, planAction, type Table } from './plan-action.ts'
import type { Shop } from './shop.ts'
import type { Single, Step } from './steps.ts'

/** The results of a run, for the figures that the test prints. */
export type Tally = { steps: number; deeds: number; answers: Record<string, number> }

const argsOf = (deed: Deed, cards: Cards): string[] => {
  const accountOf = (name: string) => cards[name as Name].accountId
  switch (deed.kind) {
    case 'refund':
      return [
        ...['orders', 'refund', '--order', deed.orderId],
        ...(deed.cents === null ? [] : ['--cents', String(deed.cents)]),
        ...(deed.proxyIds === null ? [] : ['--proxy', ...deed.proxyIds]),
      ]
    case 'credit':
      return [
        'wallet',
        'credit',
        '--kind=payment',
        '--account',
        accountOf(deed.account),
        '--cents',
        String(deed.cents),
        '--reference',
        deed.reference,
      ]
    case 'adjust':
      return [
        ...['wallet', 'adjust', '--account', accountOf(deed.account), `--cents=${deed.cents}`],
        ...['--reference', deed.reference, '--reason', deed.reason],
        ...(deed.reason === 'chargeback' ? ['--gateway', 'stripe'] : []),
      ]
    case 'customerCredit':
      return [
        ...['customers', 'credit', '--account', accountOf(deed.account), '--customer', deed.customer],
        ...['--cents', String(deed.cents), '--reference', deed.reference],
      ]
    case 'meter':
      return ['plans', 'meter', '--plan', deed.planId, '--bytes', String(deed.bytes)]
    case 'block':
    case 'unblock':
      return ['accounts', deed.kind, accountOf(deed.account)]
    case 'revoke':
      return ['keys', 'revoke', cards[deed.account as Name].keys.main!.keyId]
    case 'issue': {
      const cap = deed.account === 'capped' ? ['--daily-cap-cents', '20000'] : []
      const scopes = { buyer: 'buy', capped: 'buy', scraper: 'scrape', reseller: 'buy,scrape' }[
        deed.account as Name
      ]
      return ['keys', 'create', '--account', accountOf(deed.account), '--scopes', scopes, ...cap]
    }
  }
}

const headersOf = ({
  idempotencyKey,
  customer,
}: Pick<Request, 'idempotencyKey' | 'customer'>): Record<string, string> => ({
  ...(idempotencyKey !== null && { 'Idempotency-Key': idempotencyKey }),
  ...(customer !== null && { 'X-Reseller-Customer-Id': customer }),
})

/** Plays one run on a shop, from the opening's world, and checks everything after each step. */
export const play = async (
  shop: Shop,
  opening: Opening,
  steps: readonly Step[],
  tally: Tally,
): Promise<World> => {
  const { catalog } = opening
  const cards = structuredClone(opening.cards)
  let world = structuredClone(opening.world)
  const sent: Request[] = []
  let made = 0

  const keyText = (account: string, key: string): string => cards[account as Name].keys[key]!.text

  const quoted = async ({ account, path, body, customer }: Request): Promise<number | null> => {
    const planId = /plans\/([^/]+)/.exec(path)?.[1]
    const rental = world.rentals[(body.proxy_ids as string[] | undefined)?.[0] ?? '']
    const productId = body.product_id ?? world.plans[planId ?? '']?.productId ?? rental?.productId
    const quantity = body.quantity ?? new Set(body.proxy_ids as string[]).size
    if (typeof productId !== 'string' || !findProduct(catalog, productId)) return null
    const { target } = rental ?? {}
    const meta = target
      ? {
          country: target.country,
          carrier_id: target.carrierId,
          service: target.service,
          rotation_minutes: target.rotationMinutes,
          period_days: body.period_days,
        }
      : (body.fulfillment_meta ?? {})
    const query = new URLSearchParams({ quantity: String(quantity) })
    for (const [name, value] of Object.entries(meta)) if (value !== null) query.set(name, String(value))
    const key = keyText(account, 'audit')
    const quote = await shop.http().get(`/api/v1/products/${productId}/price?${query}`, { key })
    if (quote.status !== 200) return null
    return customer === null ? (quote.body.yourCostCents ?? quote.body.amountCents) : quote.body.amountCents
  }
  const table = (): Table => ({ catalog, world, sent, quoted, freshKey: () => `key ${++made}` })

  const send = async (request: Request): Promise<Event> => {
    sent.push(request)
    const { status, body, headers } = await shop.http().post(request.path, request.body, {
      key: keyText(request.account, request.key),
      headers: headersOf(request),
    })
    const replayed = headers.get('idempotency-replayed') === 'true'
    const kind = status < 400 ? `${status}` : body.code
    tally.answers[kind] = (tally.answers[kind] ?? 0) + 1
    return {
      kind: 'request',
      request,
      answer: { status, body, replayed, madeKey: headers.get('idempotency-key') },
    }
  }

  const actsWithinASecond = async (deed: Deed, printed: Printed): Promise<void> => {
    const { account } = deed as { account: Name }
    const before = keyText(account, 'main')
    if (deed.kind === 'issue')
      cards[account].keys.main = { keyId: printed.json.keyId, text: printed.json.key }
    const ask = async (key: string) =>
      (await shop.http().post('/api/v1/orders', {}, { key: keyText(account, key) })).body.code
    // Each key is looked up separately; one that cannot buy never gets the block.
    const codes = async () => [await ask('audit'), await ask('main')]
    const settled = async () => {
      if (deed.kind === 'revoke') return (await shop.http().get('/api/v1/me', { key: before })).status === 401
      if (deed.kind === 'block' || deed.kind === 'adjust')
        return (await codes()).every((code) =>
          ['account_blocked', 'missing_scope', 'unauthorized'].includes(code),
        )
      if (deed.kind === 'unblock') return !(await codes()).includes('account_blocked')
      return (await shop.http().get('/api/v1/me', { key: keyText(account, 'main') })).status === 200
    }
    await until(settled, { what: `the effect of ${JSON.stringify(deed)}` })
  }

  /** Traffic is no write of the customer's, so that its reads do not wait for it by themselves. */
  const projected = (): Promise<boolean> => until(() => shop.caughtUp(), { what: 'the projections' })

  const operate = async (deed: Deed): Promise<Event> => {
    tally.deeds += 1
    const printed = await shop.operator(...argsOf(deed, cards))
    const changesAccess = ['block', 'unblock', 'revoke', 'issue'].includes(deed.kind)
    const blocks = deed.kind === 'adjust' && deed.reason === 'chargeback' && printed.code === 0
    if (changesAccess || blocks) await actsWithinASecond(deed, printed)
    if (deed.kind === 'meter') await projected()
    return { kind: 'deed', deed, printed }
  }

  const perform = (action: Action): Promise<Event> =>
    action.kind === 'request' ? send(action.request) : operate(action.deed)

  const happen = async (steps: readonly Single[], oneKey: boolean): Promise<void> => {
    const plans = await Promise.all(steps.map((step) => planAction(table(), step)))
    const actions = plans.filter((action) => action !== null)
    const [first] = actions
    if (!first) return
    const events = await Promise.all((oneKey ? actions.map(() => first) : actions).map(perform))
    const verdict = judgeTogether(catalog, world, events, shop.nowMs())
    assert.ok(verdict.ok, verdict.ok ? '' : verdict.why)
    world = verdict.world
  }

  /** Opens a deposit, pays on its page, and waits until it is credited. */
  const deposit = async (step: Step & { kind: 'deposit' }): Promise<void> => {
    const { who: account, method, cents, percent, again } = step
    const customer = customerFor(account, step)
    const key = keyText(account, 'main')
    const path = '/api/v1/deposits'
    const headers = headersOf({ idempotencyKey: `key ${++made}`, customer })
    const { status, body } = await shop.http().post(path, { amount_cents: cents, method }, { key, headers })
    const kind = status < 400 ? 'deposit' : body.code
    tally.answers[kind] = (tally.answers[kind] ?? 0) + 1
    let paidCents = 0
    const payments: number[] = []
    let read: Called['body'] | null = null
    // A card is charged once for an invoice.
    const percents = method === 'crypto' && again > 0 ? [percent, again] : [percent]
    for (const part of status === 200 ? percents : []) {
      const partCents = Math.floor((body.amount_cents * part) / 100)
      payments.push(partCents)
      paidCents += partCents
      const paid = await fetch(`${shop.sandbox()}/_sandbox/invoices/${body.deposit_id}/pay`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ amount_cents: partCents }),
      })
      assert.equal(paid.status, 200, await paid.text())
      const audited = { key: keyText(account, 'audit') }
      read = await until(
        async () => {
          const { body: now } = await shop.http().get(`${path}/${body.deposit_id}`, audited)
          return now.credited_cents === paidCents && now
        },
        { what: `${body.deposit_id} to have ${paidCents}` },
      )
    }
    const paidDeposit = { account, key: 'main', customer, method, cents, payments }
    const event: Event = { kind: 'deposit', deposit: paidDeposit, answer: { status, body }, read }
    const verdict = judgeTogether(catalog, world, [event], shop.nowMs())
    assert.ok(verdict.ok, verdict.ok ? '' : verdict.why)
    world = verdict.world
  }

  /** Lets time pass, until what has run out is back in stock. */
  const wait = async (ms: number): Promise<void> => {
    shop.wait(ms)
    const { pool } = shop.farebox().core
    const due = async () => {
      const { rowCount } = await pool.query(
        'select from read.proxies where released_at is null and expires_at <= $1::timestamptz',
        [new Date(shop.nowMs()).toISOString()],
      )
      return rowCount === 0
    }
    await until(due, { what: 'the end of the rentals that ran out' })
    const nowMs = shop.nowMs()
    for (const rental of Object.values(world.rentals))
      if (rental.expiresAtMs <= nowMs) rental.releasedAtMs ??= nowMs
  }

  const perStep = (step: Step): Promise<void> => {
    if (step.kind === 'wait') return wait(step.ms)
    if (step.kind === 'deposit') return deposit(step)
    if (step.kind === 'restart') return shop.restart(step.ms).then(() => wait(0))
    if (step.kind === 'together') return happen(step.steps, step.oneKey)
    return happen([step], false)
  }

  const auditKeys = Object.fromEntries(names.map((name) => [name, keyText(name, 'audit')]))
  for (const step of steps) {
    await perStep(step)
    tally.steps += 1
    await audit(shop, auditKeys, world)
  }
  return world
}

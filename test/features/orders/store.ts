import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { groups } from '../../../projections/groups.ts'
import { findingText } from '../../../src/audit/checks/finding.ts'
import { sealKeyOf } from '../../../src/audit/seals/seals-file.ts'
import { verifyLog } from '../../../src/audit/verify.ts'
import { commands as resellerCommands } from '../../../src/features/resellers/commands.ts'
import { commands as walletCommands } from '../../../src/features/wallet/commands.ts'
import { newId } from '../../../src/kernel/ids.ts'
import { orderCommands } from '../../support/order-commands.ts'
import { logInPostgres } from '../../support/service.ts'
import { until } from '../../support/until.ts'
import { openShop } from '../deposits/support.ts'
import { cliOf } from '../resellers/cli.ts'

const orders = '/api/v1/orders'

export const addresses = (quantity: number, more: object = {}) => ({
  product_id: 'isp-static',
  quantity,
  fulfillment_meta: { country: 'USA', period_days: 30 },
  ...more,
})

/** The whole service with the stand-ins, and an operator. */
export const openTown = async (t: TestContext, settings: Readonly<Record<string, string>> = {}) => {
  const shop = await openShop(t, settings)
  const cli = cliOf(shop.farebox, [...resellerCommands, ...walletCommands, ...orderCommands])
  const run = async (...args: readonly string[]) => {
    const ran = await cli(...args)
    assert.equal(ran.code, 0, ran.err)
    return ran.json
  }
  const { accountId, key } = shop.demo.reseller
  const order = (json: object, name: string, customer?: string) =>
    shop.client.post(orders, json, {
      key,
      headers: {
        'Idempotency-Key': name,
        ...(customer !== undefined && { 'X-Reseller-Customer-Id': customer }),
      },
    })
  const read = async (orderId: string, by = key) =>
    (await shop.client.get(`${orders}/${orderId}`, { key: by })).body
  const reads = (orderId: string, status: string, by = key) =>
    until(
      async () => {
        const found = await read(orderId, by)
        return found.status === status && found
      },
      { timeoutMs: 20_000, what: `${orderId} to be ${status}` },
    )
  const creditOf = async (customer: string): Promise<number> => {
    const { customers } = await run('customers', 'list', '--account', accountId)
    return customers.find((one: { customer: string }) => one.customer === customer)?.creditCents
  }
  /** The log, both books and every read table agree, and no rule of money and orders is broken. */
  const sound = async (): Promise<void> => {
    const { pool, log, keys } = shop.farebox.core
    const { findings } = await verifyLog(
      { pool, log, groups, logInPostgres },
      { runId: newId('vrf'), publicKey: sealKeyOf(keys.seal).publicKey, exported: null },
    )
    assert.deepEqual(findings.map(findingText), [])
  }
  return {
    ...shop,
    sound,
    run,
    order,
    read,
    reads,
    creditOf,
    deposit: (id: string) => shop.read(key, id),
    deposits: (id: string, wanted: object) => shop.reads(key, id, wanted),
    reseller: { accountId, key },
  }
}

/** A reseller whose cards run on the stand-in. */
export const openStore = async (t: TestContext, settings: Readonly<Record<string, string>> = {}) => {
  const town = await openTown(t, settings)
  const { accountId, key } = town.reseller
  await town.run('reseller', 'set', '--account', accountId, '--markup', '1.30', '--merchant-name', 'Ann & Co')
  await town.run(
    ...['reseller', 'gateway', '--account', accountId],
    ...['--rail', 'card', '--provider', 'stripe', '--sandbox'],
  )
  const path = '/api/v1/products/isp-static/price?quantity=4&country=USA&period_days=30'
  const quote = await until(async () => {
    const { body } = await town.client.get(path, { key })
    return body.marginCents > 0 && body
  })
  return { ...town, quote, four: addresses(4, { method: 'card' }) }
}

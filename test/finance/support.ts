import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import type { EventLog } from '../../src/eventstore/port.ts'
import { accountStream } from '../../src/eventstore/streams.ts'
import { createShop, type Shop } from '../projections/shop.ts'
import { accounts, moneySteps, type Step, startMs, waiting } from '../projections/steps.ts'

const step = fc.oneof(...moneySteps, waiting(-1500, 100_000))

export const steps = fc.array(step, { minLength: 10, maxLength: 60 })

/** A log in which `acc_two` is a reseller and both have money; then whatever the steps do. */
export const playInto = async (log: EventLog, list: readonly Step[]): Promise<Shop> => {
  for (const accountId of accounts) {
    const data = { accountId, reseller: accountId === 'acc_two' }
    const metadata = {
      correlationId: randomUUID(),
      causationId: null,
      actor: { kind: 'operator', name: 'test' },
      recordedAt: new Date(startMs - 5000).toISOString(),
    }
    await log.append(accountStream(accountId), 'noStream', [
      {
        id: randomUUID(),
        type: 'AccountCreated',
        data: JSON.stringify(data),
        metadata: JSON.stringify(metadata),
      },
    ])
  }
  const shop = createShop(log, startMs)
  for (const id of accounts) await shop.credit(id, 10_000)
  for (const [n, act] of list.entries()) await act(shop, n)
  return shop
}

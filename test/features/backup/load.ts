import { randomUUID } from 'node:crypto'
import type { TestContext } from 'node:test'
import { call } from '../../support/farebox.ts'
import { until } from '../../support/until.ts'

const body = { product_id: 'residential-premium', quantity: 5 }

export const order = (baseUrl: string, key: string, idempotencyKey: string = randomUUID()) =>
  call(`${baseUrl}/api/v1/orders`, key, { body, headers: { 'Idempotency-Key': idempotencyKey } })

export type Placed = { readonly key: string; readonly orderId: string }

/** Four clients that order without a pause; it ends with the test at the latest. */
export const startLoad = (t: TestContext, baseUrl: string, key: string) => {
  const placed: Placed[] = []
  const failures: unknown[] = []
  let going = true
  const client = async (): Promise<void> => {
    while (going) {
      const idempotencyKey = randomUUID()
      const { status, body: answer } = await order(baseUrl, key, idempotencyKey)
      if (status === 201) placed.push({ key: idempotencyKey, orderId: answer.orderId })
      else failures.push(answer)
    }
  }
  const clients = Promise.all(Array.from({ length: 4 }, client))
  const stop = async (): Promise<void> => {
    going = false
    await clients
  }
  t.after(stop)
  return {
    placed,
    failures,
    stop,
    /** Waits until this many more orders were placed. */
    more: (count: number) => {
      const enough = placed.length + count
      return until(() => placed.length >= enough, { timeoutMs: 60_000, what: `${enough} orders` })
    },
  }
}

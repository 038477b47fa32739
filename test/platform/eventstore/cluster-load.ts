import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { atEnd } from '../../support/cleanup.ts'
import { demoEnv } from '../../support/demo-env.ts'
import { startEventStoreCluster } from '../../support/eventstore-server.ts'
import { call, dataDirectory, type FareboxProcess, farebox, startFarebox } from '../../support/farebox.ts'
import { emptyDatabase } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'

export const buyers = 16
const traffic = { product_id: 'residential-premium', quantity: 1 }

/** The longest refusal: a running command waits two seconds, a queued one five, a read ten. */
export const refusalMs = 16_000

export const succeeds = async (t: TestContext, env: NodeJS.ProcessEnv, ...args: string[]) => {
  const { code, out, err } = await farebox(t, [...args, '--json'], env)
  assert.equal(code, 0, `${args.join(' ')}: ${out}${err}`)
  return JSON.parse(out)
}

export const place = (process: Pick<FareboxProcess, 'baseUrl'>, key: string, idempotencyKey: string) =>
  call(`${process.baseUrl}/api/v1/orders`, key, {
    body: traffic,
    headers: { 'Idempotency-Key': idempotencyKey },
  })

export const balanceOf = async (process: FareboxProcess, key: string): Promise<number> =>
  (await call(`${process.baseUrl}/api/v1/wallet`, key)).body.balanceCents

/**
 * Buyers of both processes. Each repeats its request under its key until its order is acknowledged, or the
 * test ends: a test that timed out would never end otherwise.
 */
export const startLoad = (
  t: TestContext,
  processes: readonly Pick<FareboxProcess, 'baseUrl'>[],
  key: string,
) => {
  const acknowledged = new Map<string, { readonly orderId: string; readonly amountCents: number }>()
  const refused: number[] = []
  let on = true
  let testOver = false
  let lastMs = performance.now()
  let longestGapMs = 0

  const buy = async (process: Pick<FareboxProcess, 'baseUrl'>): Promise<void> => {
    const idempotencyKey = randomUUID()
    while (!testOver) {
      const requestedMs = performance.now()
      const { status, headers, body } = await place(process, key, idempotencyKey)
      if (status === 201 || status === 200) {
        acknowledged.set(idempotencyKey, body)
        const nowMs = performance.now()
        longestGapMs = Math.max(longestGapMs, nowMs - lastMs)
        lastMs = nowMs
        return
      }
      assert.equal(status, 503, JSON.stringify(body))
      assert.match(headers.get('retry-after') ?? '', /^[1-9]\d*$/)
      refused.push(performance.now() - requestedMs)
      await sleep(50)
    }
  }
  const buyer = async (n: number): Promise<void> => {
    while (on) await buy(processes[n % processes.length]!)
  }
  const over = Promise.all(Array.from({ length: buyers }, (_, n) => buyer(n)))
  over.catch(() => undefined) // `end` reports it
  atEnd(t, () => {
    on = false
    testOver = true
  })
  return {
    acknowledged,
    refused,
    /** The longest time without an acknowledged order since the last call. */
    gapMs: () => {
      const gap = Math.round(longestGapMs)
      longestGapMs = 0
      return gap
    },
    more: (count: number) => {
      const wanted = acknowledged.size + count
      return until(() => acknowledged.size >= wanted, {
        timeoutMs: 120_000,
        what: `${count} more orders`,
      })
    },
    end: async () => {
      on = false
      await over
    },
  }
}

/** A cluster, and a service over it with a funded buyer. */
export const openOnCluster = async (t: TestContext) => {
  const cluster = await startEventStoreCluster(t)
  const { url } = await emptyDatabase(t)
  const dataDir = await dataDirectory(t)
  const env = { ...demoEnv(url, dataDir), FAREBOX_RATE_LIMIT: 'off', EVENTSTORE_URL: cluster.url }
  const first = await startFarebox(t, env)
  const { buyer } = JSON.parse(await readFile(join(dataDir, 'demo.json'), 'utf8'))
  const money = ['--account', buyer.accountId, '--cents', '90000000', '--reference', 'load']
  await succeeds(t, env, 'wallet', 'credit', '--kind=payment', ...money)
  return { cluster, env, first, key: buyer.key as string }
}

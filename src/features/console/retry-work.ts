import type pg from 'pg'
import type { Clock } from '../../kernel/clock.ts'
import type { Cause } from '../../kernel/event.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { MasterKey } from '../../platform/vault/keys.ts'
import { createVault } from '../../platform/vault/seal.ts'
import { retryDead } from '../../platform/work/queue-operations.ts'
import type { QueueTable } from '../../platform/work/queue-table.ts'
import { createWebhooks, createWebhookValues, deliveryQueue, retryDeliveries } from '../webhooks/index.ts'

type RetryParts = {
  readonly pool: pg.Pool
  readonly keys: { readonly master: MasterKey }
  readonly runner: CommandRunner
  readonly clock: Clock
}

/**
 * Retries items that a queue gave up. An event queues a delivery again; any other item is queued again by its row.
 * @param items their keys as returned by `listDead`; null: all of them, for webhooks the oldest 1000
 * @returns how many
 */
export const retryWork = (
  { pool, keys, runner, clock }: RetryParts,
  queue: QueueTable,
  items: readonly string[] | null,
  cause: Cause,
): Promise<number> => {
  if (queue !== deliveryQueue) return retryDead(pool, queue, items, clock())
  const values = createWebhookValues({ pool, vault: createVault(keys.master) })
  return retryDeliveries({ pool, webhooks: createWebhooks({ runner, values }) }, items, {
    actor: cause.actor,
    correlationId: cause.correlationId,
  })
}

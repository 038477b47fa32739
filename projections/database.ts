import type { ReadModel, RowOf } from '../src/platform/projections/read-model.ts'
import type { books, hot, webhookDue } from './groups.ts'
import type { AttemptRow, DeliveriesTable } from './webhooks.ts'

type TablesOf<Models extends readonly ReadModel[]> = Models[number]['tables'][number]

type ReadTable =
  | TablesOf<typeof hot.models>
  | TablesOf<typeof books.models>
  | TablesOf<typeof webhookDue.models>

/** The rows of the read tables for queries. `src/platform/postgres/pool.ts` parses numbers and ISO times. */
type ReadTables = { readonly [T in ReadTable as `read.${T['name']}`]: RowOf<T> }

/** Tables of features that queries join to read tables. */
type FeatureTables = {
  readonly 'vault.labels': {
    readonly resourceId: string
    readonly accountId: string
    readonly label: string
  }
  readonly 'vault.deposit_pages': {
    readonly depositId: string
    readonly returnUrl: string
    readonly payUrl: string | null
    readonly signature: Buffer | null
  }
  readonly 'vault.customers': { readonly customerId: string; readonly ref: string | null }
  readonly 'vault.notice_reads': {
    readonly accountId: string
    readonly noticeId: string
    readonly readAt: string
  }
  readonly 'work.webhook_deliveries': DeliveriesTable
  readonly 'work.queue_owners': {
    readonly queue: string
    readonly owner: string
    readonly nextDueAt: string | null
    readonly memory: Readonly<Record<string, unknown>>
  }
  readonly 'work.webhook_attempts': AttemptRow & { readonly deliveryId: string }
  readonly 'vault.replacement_comments': {
    readonly proxyId: string
    readonly replacedAt: string
    readonly comment: string
  }
  readonly 'work.exit_health': {
    readonly exitId: string
    readonly alive: boolean
    readonly problem: string | null
    readonly changedAt: string
  }
  readonly 'work.traffic': { readonly planId: string; readonly usedBytes: number }
  readonly 'work.renewals': {
    readonly subscriptionId: string
    readonly periodStart: string
    readonly reason: string
  }
}

declare module '../src/platform/postgres/kysely.ts' {
  interface Database extends ReadTables, FeatureTables {}
}

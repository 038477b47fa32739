import type { FastifyInstance, FastifyReply } from 'fastify'
import type pg from 'pg'
import type { Provider } from '../domain/payments/payments.ts'
import type { Migrations } from '../platform/postgres/migrate.ts'
import { inTransaction } from '../platform/postgres/transaction.ts'
import type { InvoiceAction, SandboxInvoice } from './invoice.ts'
import type { PendingCallback } from './send-callbacks.ts'

/** Shared by the controls and the pay pages: finds invoices by id and actions by name. */
export type InvoiceActions = {
  /** Finds an invoice by its id at the provider, or by its deposit id. */
  find(id: string): Promise<SandboxInvoice | null>
  /** `cents`: the amount of a payment, whole cents above 0. Null for an unknown action name. */
  actionOf(invoice: SandboxInvoice, kind: string, cents: number): InvoiceAction | null
}

export const createInvoiceActions = (
  sandboxStore: SandboxStore,
  providers: Readonly<Record<Provider, ProviderSandbox>>,
): InvoiceActions => ({
  find: async (id) => {
    const byId = await sandboxStore.find(id)
    if (byId) return byId
    const reference = await sandboxStore.records.get<{ id: string }>('reference', id)
    return reference && sandboxStore.find(reference.id)
  },
  actionOf: (invoice, kind, cents) => {
    if (kind === 'pay') return { kind, cents, paymentId: providers[invoice.provider].paymentId() }
    if (kind === 'dispute') return { kind, disputeId: `dp_${sandboxStore.hex(24)}` }
    if (kind === 'close-dispute') return { kind, cents }
    if (kind === 'refund') return { kind, cents, refundId: sandboxStore.hex(24) }
    if (kind === 'lose-dispute') return { kind: 'close-dispute', cents: 0 }
    if (kind === 'mark-settled' || kind === 'mark-invalid' || kind === 'euros') return { kind }
    if (kind === 'process' || kind === 'expire' || kind === 'fail' || kind === 'fail-refund') return { kind }
    return null
  },
})

/** The stored state of the simulated providers, so that a restart or a second process finds the same invoices. */
export type SandboxRecords = {
  get<Body extends object>(kind: string, id: string): Promise<Body | null>
  /**
   * Changes one record under a lock. If `change` returns null, the record is unchanged. Returns the record afterwards.
   */
  change<Body extends object>(
    kind: string,
    id: string,
    change: (body: Body | null) => Body | null,
  ): Promise<Body | null>
  all<Body extends object>(kind: string): Promise<readonly Body[]>
}

export const migrations: Migrations = {
  '0802_sandbox': `
    create table work.sandbox_records (
      kind text not null,
      id text not null,
      body jsonb not null,
      primary key (kind, id)
    );
  `,
}

export const postgresRecords = (pool: pg.Pool): SandboxRecords => ({
  get: async <Body>(kind: string, id: string) => {
    const { rows } = await pool.query<{ body: Body }>(
      'select body from work.sandbox_records where kind = $1::text and id = $2::text',
      [kind, id],
    )
    return rows[0]?.body ?? null
  },
  change: async <Body extends object>(
    kind: string,
    id: string,
    change: (body: Body | null) => Body | null,
  ) => {
    return inTransaction(pool, async (client) => {
      await client.query('select pg_advisory_xact_lock(hashtextextended($1::text, 7230800))', [
        `${kind} ${id}`,
      ])
      const { rows } = await client.query<{ body: Body }>(
        'select body from work.sandbox_records where kind = $1::text and id = $2::text',
        [kind, id],
      )
      const before = rows[0]?.body ?? null
      const after = change(before)
      if (after !== null)
        await client.query(
          `insert into work.sandbox_records (kind, id, body) values ($1::text, $2::text, $3::jsonb)
           on conflict (kind, id) do update set body = excluded.body`,
          [kind, id, JSON.stringify(after)],
        )
      return after ?? before
    })
  },
  all: async <Body>(kind: string) => {
    const { rows } = await pool.query<{ body: Body }>(
      'select body from work.sandbox_records where kind = $1::text order by id',
      [kind],
    )
    return rows.map(({ body }) => body)
  },
})

/** An account at a simulated provider: its API key, and the address and secret of its callbacks. */
export type SandboxAccount = {
  readonly provider: Provider
  /** Its API key. */
  readonly key: string
  readonly webhookUrl: string
  readonly webhookSecret: string
}

/** The shared state and functions of the simulated providers. */
export type SandboxStore = {
  readonly records: SandboxRecords
  readonly clock: () => number
  /** Random lower-case hex digits. */
  readonly hex: (digits: number) => string
  /** The base URL of this server. */
  readonly baseUrl: () => string
  account(provider: Provider, key: string): Promise<SandboxAccount | null>
  /** Sends a callback in the background. */
  send(outgoing: PendingCallback): void
  find(id: string): Promise<SandboxInvoice | null>
  add(invoice: SandboxInvoice): Promise<SandboxInvoice>
  /** Applies the action and sends its callbacks; or returns why the provider refuses it. */
  act(
    id: string,
    action: InvoiceAction,
  ): Promise<{ readonly invoice: SandboxInvoice } | { readonly refused: string }>
}

/** The API of one provider, and its callbacks for actions on an invoice. */
export type ProviderSandbox = {
  readonly provider: Provider
  /** A new payment id in the format of the provider. */
  paymentId(): string
  routes(app: FastifyInstance): void
  callbacks(
    before: SandboxInvoice,
    invoice: SandboxInvoice,
    action: InvoiceAction,
    account: SandboxAccount,
  ): readonly PendingCallback[]
}

export const invoiceKind = 'invoice'

export const answer = (reply: FastifyReply, status: number, body: unknown): FastifyReply =>
  reply.code(status).header('content-type', 'application/json; charset=utf-8').send(JSON.stringify(body))

import type { FastifyInstance, FastifyReply } from 'fastify'
import type pg from 'pg'
import type { Provider } from '../domain/payments/payments.ts'
import type { Migrations } from '../platform/postgres/migrate.ts'
import { inTransaction } from '../platform/postgres/transaction.ts'
import type { InvoiceAction, SandboxInvoice } from './invoice.ts'
import type { PendingCallback } from './send-callbacks.ts'

/** What both the controls and the pay pages need: an invoice by its address, and a deed by its name. */
export type InvoiceActions = {
  /** By the provider's id of the invoice, or by the deposit's. */
  find(id: string): Promise<SandboxInvoice | null>
  /** `cents` is what a payment pays, whole cents above 0; null for a deed of no known name. */
  actionOf(invoice: SandboxInvoice, kind: string, cents: number): InvoiceAction | null
}

export const createInvoiceActions = (
  sandboxStore: SandboxStore,
  standIns: Readonly<Record<Provider, StandIn>>,
): InvoiceActions => ({
  find: async (id) => {
    const byId = await sandboxStore.find(id)
    if (byId) return byId
    const reference = await sandboxStore.records.get<{ id: string }>('reference', id)
    return reference && sandboxStore.find(reference.id)
  },
  actionOf: (invoice, kind, cents) => {
    if (kind === 'pay') return { kind, cents, paymentId: standIns[invoice.provider].paymentId() }
    if (kind === 'dispute') return { kind, disputeId: `dp_${sandboxStore.hex(24)}` }
    if (kind === 'close-dispute' || kind === 'refund') return { kind, cents }
    if (kind === 'lose-dispute') return { kind: 'close-dispute', cents: 0 }
    if (kind === 'mark-settled' || kind === 'mark-invalid' || kind === 'euros') return { kind }
    if (kind === 'process' || kind === 'expire' || kind === 'fail') return { kind }
    return null
  },
})

/** What the stand-ins remember, so that a restart or a second process finds the same invoices. */
export type SandboxRecords = {
  get<Body extends object>(kind: string, id: string): Promise<Body | null>
  /** Changes one record alone; null from `change` leaves it as it is. Gives what stands afterwards. */
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

/** An account at a stand-in: where its callbacks go, what signs them, and what its pay pages call it. */
export type SandboxAccount = {
  readonly provider: Provider
  /** Its API key. */
  readonly key: string
  readonly webhookUrl: string
  readonly webhookSecret: string
}

/** What the stand-ins share. */
export type SandboxStore = {
  readonly records: SandboxRecords
  readonly clock: () => number
  /** Fresh lower-case hex digits. */
  readonly hex: (digits: number) => string
  /** Where this server answers. */
  readonly baseUrl: () => string
  account(provider: Provider, key: string): Promise<SandboxAccount | null>
  find(id: string): Promise<SandboxInvoice | null>
  add(invoice: SandboxInvoice): Promise<SandboxInvoice>
  /** Does the deed and sends its callbacks; gives why the provider would not take it. */
  act(
    id: string,
    action: InvoiceAction,
  ): Promise<{ readonly invoice: SandboxInvoice } | { readonly refused: string }>
}

/** One provider's API, and the callbacks that it sends when something was done to an invoice. */
export type StandIn = {
  readonly provider: Provider
  /** The shape of its payment ids. */
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

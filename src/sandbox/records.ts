import type pg from 'pg'
import type { Migrations } from '../platform/postgres/migrate.ts'
import { inTransaction } from '../platform/postgres/transaction.ts'

/** What the stand-ins remember, so that a restart or a second process finds the same invoices. */
export type Records = {
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

export const postgresRecords = (pool: pg.Pool): Records => ({
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

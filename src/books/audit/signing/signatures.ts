import type pg from 'pg'

/** A row of `log.signatures`: what one process says of a batch that it wrote. */
export type SignedBatch = {
  readonly firstPosition: number
  readonly events: number
  /** Lower-case hex. */
  readonly publicKey: string
  readonly number: number
  readonly previousPosition: number
  readonly signature: Buffer
}

type Row = {
  first_position: number
  events: number
  public_key: Buffer
  number: number
  previous_position: number
  signature: Buffer
}

/** The batches that begin after one position and up to another, in order. */
export const readSignedBatches = async (
  pool: Pick<pg.Pool, 'query'>,
  after: number,
  through: number,
): Promise<readonly SignedBatch[]> => {
  const { rows } = await pool.query<Row>({
    name: 'farebox-signed-batches',
    text: `select first_position, events, public_key, number, previous_position, signature from log.signatures
            where first_position > $1::bigint and first_position <= $2::bigint order by first_position`,
    values: [after, through],
  })
  return rows.map((row) => ({
    firstPosition: row.first_position,
    events: row.events,
    publicKey: row.public_key.toString('hex'),
    number: row.number,
    previousPosition: row.previous_position,
    signature: row.signature,
  }))
}

/** Batches that begin behind the end of the log: their events were cut off. */
export const countBehindTheEnd = async (pool: Pick<pg.Pool, 'query'>): Promise<number> => {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::int as count from log.signatures
      where first_position > (select last_position from log.head)`,
  )
  return rows[0]!.count
}

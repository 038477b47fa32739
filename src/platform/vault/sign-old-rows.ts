import type pg from 'pg'

const rowsAtOnce = 200

/**
 * Signs the rows of a table that an older release stored without a signature, page by page.
 * @param unsignedSql selects the rows after the id `$1`, ordered by id
 * @param write stores the signatures of a page; rows that it does not change remain unsigned
 */
export const signOldRows = async <Row extends pg.QueryResultRow>(
  pool: pg.Pool,
  unsignedSql: string,
  idOf: (row: Row) => string,
  write: (rows: readonly Row[]) => Promise<unknown>,
): Promise<void> => {
  let after = ''
  for (;;) {
    const { rows } = await pool.query<Row>(`${unsignedSql} limit ${rowsAtOnce}`, [after])
    const last = rows.at(-1)
    if (last === undefined) return
    await write(rows)
    if (rows.length < rowsAtOnce) return
    after = idOf(last)
  }
}

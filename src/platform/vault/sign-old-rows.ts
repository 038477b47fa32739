import type pg from 'pg'

const rowsAtOnce = 200

/**
 * Signs the rows of a table that an older release left without a signature, page by page.
 * @param unsignedSql the rows behind the id `$1`, in the order of their ids
 * @param write stores the signatures of a page; a row that it leaves as it is stays unsigned
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

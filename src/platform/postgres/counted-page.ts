import type { SelectQueryBuilder } from 'kysely'

/**
 * A page of rows and how many there are in all, in one round trip and as of one moment. A page that begins behind the last
 * row is empty: then the total takes a second statement.
 * @param counting gives the total, in one row; no row is none
 */
export const countedPage = async <Database, Tables extends keyof Database, Row>(
  fitting: SelectQueryBuilder<Database, Tables, Row>,
  // biome-ignore lint/suspicious/noExplicitAny: it may count in other tables, under other names
  counting: SelectQueryBuilder<any, any, { total: number }>,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ readonly rows: readonly Row[]; readonly total: number }> => {
  const page = fitting.limit(limit).offset(offset).select(counting.as('total'))
  const rows = (await page.execute()) as (Row & { readonly total: number | null })[]
  const [first] = rows
  if (first !== undefined) return { rows, total: first.total ?? 0 }
  if (offset === 0) return { rows, total: 0 }
  return { rows, total: (await counting.executeTakeFirst())?.total ?? 0 }
}

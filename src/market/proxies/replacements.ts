import type pg from 'pg'

/** One replacement of a rental's address, for its operator. */
export type Replacement = {
  readonly replacedAt: string
  readonly reason: string
  readonly formerIp: string
  readonly ip: string
  /** In the renter's own words. */
  readonly comment: string | null
}

/** The replacements of these rentals, oldest first, each rental under its id; those without one are left out. */
export const readReplacements = async (
  pool: pg.Pool,
  proxyIds: readonly string[],
): Promise<ReadonlyMap<string, readonly Replacement[]>> => {
  const { rows } = await pool.query<Replacement & { readonly proxyId: string }>(
    `select replacement.proxy_id as "proxyId", replacement.replaced_at as "replacedAt", replacement.reason,
            replacement.former_ip as "formerIp", replacement.ip, said.comment
       from read.replacements replacement
       left join vault.replacement_comments said
         on said.proxy_id = replacement.proxy_id and said.replaced_at = replacement.replaced_at
      where replacement.proxy_id = any ($1::text[])
      order by replacement.replaced_at`,
    [proxyIds],
  )
  const groups = Map.groupBy(rows, ({ proxyId }) => proxyId)
  return new Map(
    [...groups].map(([proxyId, found]) => [
      proxyId,
      found.map(({ proxyId: _, ...replacement }) => replacement),
    ]),
  )
}

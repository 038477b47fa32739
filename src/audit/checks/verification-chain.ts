import type pg from 'pg'

/** The fields of a run that a link covers, as one text. It is the same in every time zone and after every restore. */
const contentSql = (row: string): string => `jsonb_build_array(${row}.run_id, ${row}.log_id, ${row}.actor,
  extract(epoch from ${row}.started_at), extract(epoch from ${row}.finished_at), ${row}.outcome, ${row}.result)::text`

const sha256Sql = (text: string): string => `encode(sha256(convert_to(${text}, 'UTF8')), 'hex')`

/** The digest before the first link: of all verdicts from before the chain existed, without one run. */
const originSql = (
  excludedRunId: string,
): string => `(select ${sha256Sql(`coalesce(string_agg(${contentSql('o')}, ' ' order by o.run_id collate "C"), '')`)}
  from work.verifications o where o.link is null and o.outcome in ('clean', 'differs')
    and o.run_id is distinct from ${excludedRunId})`

/** Appends a finished run to the chain. Its transaction must have the lock of `lockChain`. */
export const linkRun = async (client: pg.ClientBase, runId: string): Promise<void> => {
  await client.query(
    `with last as (select link, link_digest from work.verifications where link is not null order by link desc limit 1),
          before as (select coalesce((select link from last), 0) as link,
                            coalesce((select link_digest from last), ${originSql('$1::text')}) as digest)
     update work.verifications v
        set link = before.link + 1, link_digest = ${sha256Sql(`before.digest || ' ' || ${contentSql('v')}`)}
       from before where v.run_id = $1::text`,
    [runId],
  )
}

/** Serializes the creation of links across processes. */
export const lockChain = async (client: pg.ClientBase): Promise<void> => {
  await client.query("select pg_advisory_xact_lock(hashtextextended('farebox verification links', 0))")
}

/** The state of the chain of runs: the number of links, the last digest (null without links), and the problems. */
export type RunsChain = {
  readonly links: number
  readonly digest: string | null
  /** The first problems, oldest first; empty when nothing is wrong. */
  readonly findings: readonly string[]
}

/**
 * Checks every link. A finding names the run where the chain breaks because a run was changed, removed or inserted.
 * @param maxFindings the maximum number of findings; null: all
 */
export const checkRuns = async (pool: pg.Pool, maxFindings: number | null = 20): Promise<RunsChain> => {
  const { rows } = await pool.query<{ links: number; digest: string | null }>(
    `select count(*) as links,
            (select link_digest from work.verifications where link is not null order by link desc limit 1) as digest
       from work.verifications where link is not null`,
  )
  const { links, digest } = rows[0]!
  const brokenLinks = await pool.query<{ run_id: string; link: number; missing: number }>(
    `select run_id, link, missing from (
       select v.run_id, v.link, v.link - lag(v.link, 1, 0::bigint) over w - 1 as missing,
              v.link_digest is distinct from
                ${sha256Sql(`coalesce(lag(v.link_digest) over w, ${originSql('null')}) || ' ' || ${contentSql('v')}`)} as differs
         from work.verifications v where v.link is not null window w as (order by v.link)
     ) as chain where missing > 0 or differs order by link limit $1::bigint`,
    [maxFindings],
  )
  const findings = brokenLinks.rows.map(({ run_id, link, missing }) =>
    missing > 0
      ? `before run ${run_id} (link ${link}) ${missing} of the chain ${missing === 1 ? 'is' : 'are'} missing: removed`
      : link === 1
        ? `run ${run_id} (link 1) does not fit: it was changed, or a verdict from before the chain was changed, removed or inserted`
        : `run ${run_id} (link ${link}) does not fit: it was changed, or the digest of the run before it was`,
  )
  return { links, digest, findings }
}

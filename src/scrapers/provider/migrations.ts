import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * How calls of each scraper went, by the hour: counts of this installation, for the list of scrapers. It tells nothing of a
 * customer or a target, and nothing is decided by it.
 */
export const migrations: Migrations = {
  '1430_scraper_health': `
    create table work.scraper_health (
      scraper text not null collate "C",
      hour timestamptz not null,
      good bigint not null,
      bad bigint not null,
      -- Good calls by how long they took: see src/scrapers/provider/health.ts.
      took bigint[] not null,
      last_good_at timestamptz,
      primary key (scraper, hour)
    );
    create index scraper_health_hour on work.scraper_health (hour);
  `,
}

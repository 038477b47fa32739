import type { Migrations } from '../../platform/postgres/migrate.ts'

/** How far the demo data of this database is: one row once seeding began. */
export const migrations: Migrations = {
  '0020_demo': `
    create table work.demo (
      singleton boolean primary key default true check (singleton),
      began_at timestamptz not null default clock_timestamp(),
      finished_at timestamptz
    );
  `,
}

import type { Migrations } from '../../platform/postgres/migrate.ts'

/**
 * Which plan a username names. Usernames are derived from plans by a secret, one way, so they are looked up here. Whatever
 * is missing is made again from the plans: the table is an index, and no more.
 */
export const migrations: Migrations = {
  '1402_gateway_logins': `
    create table work.gateway_logins (
      username text primary key collate "C",
      plan_id text not null collate "C",
      started_at timestamptz not null
    );
    create index gateway_logins_started on work.gateway_logins (started_at);
  `,
  // The same for rentals whose addresses are endpoints of suppliers.
  '1406_gateway_rental_logins': `
    create table work.gateway_rental_logins (
      username text primary key collate "C",
      proxy_id text not null collate "C",
      started_at timestamptz not null
    );
    create index gateway_rental_logins_started on work.gateway_rental_logins (started_at);
  `,
  // How often a mobile rental was turned to another exit by its link.
  '1405_rental_turns': `
    create table work.rental_turns (
      proxy_id text primary key collate "C",
      turns bigint not null,
      turned_at timestamptz not null
    );
  `,
}

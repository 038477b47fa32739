import type { Migrations } from './migrate.ts'

const schemas: Migrations = {
  '0000_schemas': `
    create schema log;
    create schema engine;
    create schema read;
    create schema vault;
    create schema work;
  `,
}

const rooms: readonly Migrations[] = [schemas]

const collect = (all: readonly Migrations[]): Migrations => {
  const collected: Record<string, string> = {}
  for (const migrations of all)
    for (const [name, sql] of Object.entries(migrations)) {
      if (name in collected) throw new Error(`two rooms name a migration ${name}`)
      collected[name] = sql
    }
  return collected
}

/** The migrations of every room. */
export const allMigrations: Migrations = collect(rooms)

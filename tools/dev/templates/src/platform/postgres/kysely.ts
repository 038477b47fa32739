import type { Kysely } from 'kysely'

/** Stands for `Db` of src/platform/postgres/kysely.ts once projections/groups.ts lists the new read model. */
export type Db = Kysely<{
  readonly 'read.sample_thing': { readonly accountId: string; readonly value: string }
}>

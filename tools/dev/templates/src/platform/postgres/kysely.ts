import type { Kysely } from 'kysely'

/** Only for the compilation of this template. The created file uses `Db` of src/platform/postgres/kysely.ts instead. */
export type Db = Kysely<{
  readonly 'read.sample_thing': { readonly accountId: string; readonly value: string }
}>

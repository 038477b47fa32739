import { join } from 'node:path'

/** One process for all the files that `test/run.ts` names: each would take longer to start than to run. */
const files = process.env.FAREBOX_TEST_PURE?.split(',') ?? []
for (const file of files) await import(join(import.meta.dirname, '..', file))

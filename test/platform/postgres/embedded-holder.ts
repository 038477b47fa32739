import { startEmbeddedPostgres } from '../../../src/platform/postgres/embedded.ts'

// Holds a data directory until it is killed: the other process of embedded.test.ts.
await startEmbeddedPostgres({ dataDir: process.argv[2]! })
process.stdout.write('ready\n')
setInterval(() => {}, 1000)

import { once } from 'node:events'
import { rm, writeFile } from 'node:fs/promises'
import { sharedServerFile, startTestServer } from './support/postgres-server.ts'

/** `npm run dev:db` starts a Postgres that all test runs use until it ends. */
const server = await startTestServer()
await writeFile(sharedServerFile, server.url, { mode: 0o600 })
process.stdout.write(`Tests use this Postgres until you press Ctrl-C:\n  psql '${server.url}'\n`)
await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM'), once(process, 'SIGHUP')])
await rm(sharedServerFile, { force: true })
await server.stop()

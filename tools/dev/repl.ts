import { join } from 'node:path'
import { start } from 'node:repl'
import { refusalOf } from '../../src/app/cli-program.ts'
import { readConfig } from '../../src/app/config.ts'
import { openCliContext } from '../../src/app/open-context.ts'
import { sql } from '../../src/platform/postgres/kysely.ts'
import { refuse } from './options.ts'

/** `npm run repl` opens a JavaScript prompt on the database of `npm start`, also while the server runs. */
const open = async () => openCliContext(readConfig(process.env), false, Date.now)
const { context, close } = await open().catch((error: unknown) => {
  const refusal = refusalOf(error)
  if (refusal === null) throw error
  return refuse(refusal.message)
})
process.stdout.write(`Connected. Variables: ${[...Object.keys(context), 'sql'].sort().join(', ')}.
  await log.head()
  await db.selectFrom('read.accounts').select('accountId').limit(3).execute()
  await log.readAll(0, 3)
`)
const session = start('farebox> ')
Object.assign(session.context, context, { sql })
session.setupHistory({
  filePath: join(import.meta.dirname, '../../node_modules/.cache/farebox-repl'),
  onHistoryFileLoaded: () => undefined,
})
session.once('exit', async () => {
  await close()
  process.exit()
})

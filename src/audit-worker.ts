import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

// See main.ts.
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/farebox'))

const { runAuditor } = await import('./app/auditor.ts')

await runAuditor(Date.now)

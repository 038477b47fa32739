import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import type { FinanceDirectory } from '../../platform/http/auth.ts'
import { financeRoutes } from './routes.ts'
import { createFinanceDirectory } from './token-service.ts'

export const open = (core: ServerCore): Feature & { readonly directory: FinanceDirectory } => {
  const { pool, log, clock } = core
  return {
    directory: createFinanceDirectory({ pool, log, clock, clockProblem: core.clockGuard.problem }),
    routes: financeRoutes({ pool, log, clock, progress: core.projecting.progress }),
  }
}

import type { NoticeQueries } from '../../../projections/notices.ts'
import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import { createKysely } from '../../platform/postgres/kysely.ts'
import { noticeRoutes } from './routes.ts'

export const open = ({ pool, reads, clock }: ServerCore): Feature => {
  const db: NoticeQueries = createKysely(pool)
  return { routes: noticeRoutes({ reads, db, clock }) }
}

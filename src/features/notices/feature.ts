import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import { noticePages, operatorNoticePages } from './notice-pages.ts'
import { createNotices } from './notice-service.ts'
import { noticeRoutes } from './routes.ts'

export const open = (core: ServerCore): Feature => {
  const { pool, db, reads, clock, caughtUp } = core
  return {
    routes: noticeRoutes({ reads, db, clock }),
    pages: [
      ...noticePages({ pool, db, reads }),
      ...operatorNoticePages({ db, notices: createNotices(core), caughtUp }),
    ],
  }
}

export { createTrafficCounters } from './traffic-counters.ts'
export { createTrafficReports } from './traffic-reports.ts'

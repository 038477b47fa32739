export { createTrafficCounters } from './traffic-counters.ts'
export { createTrafficReports, readCountedPlan } from './traffic-reports.ts'

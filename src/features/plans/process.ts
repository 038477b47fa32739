export { createTrafficCounters, createTrafficReports } from './traffic-counters.ts'

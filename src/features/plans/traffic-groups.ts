/** What the traffic of a plan is grouped by. */
export const trafficGroups = ['host', 'country', 'hour', 'line'] as const
export type TrafficGroupName = (typeof trafficGroups)[number]

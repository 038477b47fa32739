export {
  type Candidate,
  type ConnectionNeeds,
  countryOnly,
  type ExitIndex,
  hash32,
  matchesTargeting,
  mix32,
} from './candidates.ts'
export {
  createExitHealth,
  createHealthTable,
  createMachineHealth,
  type ExitHealth,
  type HealthChange,
  type HealthTable,
  isLocal,
  type MachineHealth,
} from './exit-health.ts'
export { countDeadExits } from './exit-service.ts'
export { createExitLogins, createLiveExits, type LiveExits, type SandboxExits } from './live-exits.ts'
export type { CurrentLocations, LocationsByCountry } from './locations.ts'
export { probe, probeKey } from './probe-exit.ts'
export {
  createStickySessions,
  deleteExpiredSessions,
  maxReleased,
  type ProposedPin,
  releaseSessions,
  type SessionPin,
  type SessionRef,
  type StickySessions,
  sessionRef,
} from './sticky-sessions.ts'

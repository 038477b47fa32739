export { readAddress } from './endpoint-reads.ts'
export {
  type CandidateRefusal,
  type CandidateRules,
  candidateRefusal,
  isSandboxAddress,
} from './endpoint-store.ts'
export {
  anonymityText,
  attributionLine,
  countryField,
  countryFilter,
  countryText,
  networkPath,
  proxyColumns,
  warning,
} from './free-proxy-pages.ts'
export { type AnnouncedNetwork, emptyIpFacts, type IpData, type IpFacts } from './ip-data.ts'
export { attribution } from './ip-tables.ts'
export { defaultLimit, entryExample, filterFields, ListEntry, maxLimit } from './list-entry.ts'
export type { LiveList, Snapshot } from './live-list.ts'
export type { OneOffChecks } from './open-checking.ts'
export { type Check, type CheckResult, CheckUnavailable } from './probe-port.ts'

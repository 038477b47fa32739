export { adoptWhitelists } from './adopt-whitelists.ts'
export { minPrefixLength } from './whitelist.ts'
export { createIsAllowed, type EntryRow, entryColumns, type IsAllowed } from './whitelist-commitments.ts'

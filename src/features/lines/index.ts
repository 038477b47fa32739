export { createLineSets, type LineSets } from './line-sets.ts'
export { isEntryOfPlan, maxWhitelist, minPrefixLength, networksOf, type Whitelist } from './whitelist.ts'
export {
  adoptWhitelists,
  createIsAllowed,
  type EntryRow,
  entryColumns,
  type IsAllowed,
} from './whitelist-commitments.ts'
